// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/output/output.hpp"

#include <filesystem>

namespace tpx::cli {

/// Prints what an unfinished output of tpx reshard is and how much of it is written. Returns false, without printing
/// anything, if `path` is not such a folder.
bool print_unfinished(const std::filesystem::path& path, Output& out);

}  // namespace tpx::cli
