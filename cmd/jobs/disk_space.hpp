// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace tpx::cli {

/// Bytes that `files` and an inbox of `inbox` bytes take on the file system of `folder`, which allocates whole blocks,
/// plus a few blocks for folders, journals and records.
std::uint64_t bytes_on_disk(const std::filesystem::path& folder, std::span<const FileEntry> files, std::uint64_t inbox);

/// Throws Error if the file system of `folder` has fewer than `needed` bytes free. Entries of `parent` whose names
/// begin with `prefix` are from earlier runs and will be replaced, so their bytes count as free. `advice` ends the
/// message.
void check_disk_space(const std::filesystem::path& folder, std::uint64_t needed, const std::filesystem::path& parent,
                      const std::string& prefix, std::string_view advice);

}  // namespace tpx::cli
