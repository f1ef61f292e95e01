// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace tpx {

/// Removes the file or folder at `path` with all in it, small files first: metadata is small, and payload that nothing
/// describes is taken for a checkpoint by nobody. The marker of an unfinished folder goes last, and stays where any
/// file does. Follows no links. Returns the first fault, empty when all is gone.
std::string remove_tree(const std::filesystem::path& path);

}  // namespace tpx
