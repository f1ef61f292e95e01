// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <string>
#include <vector>

namespace tpx::formats {

/// A line for each file of archives that is a copy of another one, "FILE: is a copy of OTHER, ...". Pieces in different
/// files are different parts of tensors, so only files whose tensors contain nothing but constants may be equal. Call
/// it before locate(). Reads few bytes of files that are not copies.
std::vector<std::string> copied_files(const Checkpoint& checkpoint);

}  // namespace tpx::formats
