// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace tpx {

/// Removes the file or folder at `path` with its contents, small files first: metadata is small, and
/// payload without metadata cannot be mistaken for a checkpoint. The marker of an unfinished folder is removed last,
/// and stays if any other file does. Follows no links. Returns the first error, or an empty text if everything was
/// removed.
std::string remove_tree(const std::filesystem::path& path);

}  // namespace tpx
