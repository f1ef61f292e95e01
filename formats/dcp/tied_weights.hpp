// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <map>
#include <span>

namespace tpx::formats {

/// Maps each of `tensors` that repeats an earlier one to that one: matrices with the same dtype, shape, boxes and
/// bytes. For checkpoints that may store tied weights twice (DCP, torch, safetensors). Reads a whole tensor only if its
/// first bytes match another's. Call it before locate().
std::map<std::uint32_t, std::uint32_t> repeated_matrices(const Checkpoint& checkpoint,
                                                         std::span<const std::uint32_t> tensors);

}  // namespace tpx::formats
