// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <functional>
#include <string>
#include <vector>

namespace tpx::formats {

/// A line for each file of archives that has the bytes of another one: "'FILE' has the same bytes as 'OTHER'; ...".
/// Files contain different parts of tensors, which may be equal, as those of copied experts are, but rarely all are.
/// Ignores files whose tensors are constant. Call it before locate(). Reads few bytes of files that differ. Returns
/// early, with an incomplete result, once `is_cancelled` returns true.
std::vector<std::string> copied_files(const Checkpoint& checkpoint, const std::function<bool()>& is_cancelled);

}  // namespace tpx::formats
