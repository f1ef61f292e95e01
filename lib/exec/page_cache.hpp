// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace tpx {

/// Syncs the file at `path` and drops it from this host's page cache, so that the next read comes from disk. Returns
/// false if pages stay in memory, as on tmpfs and other in-memory file systems. Throws Error.
bool drop_from_page_cache(const std::filesystem::path& path);

}  // namespace tpx
