// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace tpx {

/// Writes what is not yet on disk of the file at `path` and drops it from this host's page cache, so that the next read
/// comes from disk. False where pages stay in memory: on tmpfs and other file systems that live there. Throws Error.
bool drop_cached(const std::filesystem::path& path);

}  // namespace tpx
