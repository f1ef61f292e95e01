// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <map>
#include <span>

namespace tpx::formats {

/// Of `tensors` of a checkpoint that may keep tied ones twice (DCP, torch, safetensors), those that repeat an earlier
/// one, and which: matrices of one type, shape and cut whose bytes are the same. Reads what begins alike, a piece after
/// the other; pieces must not have been located yet.
std::map<std::uint32_t, std::uint32_t> repeated_matrices(const Checkpoint& checkpoint,
                                                         std::span<const std::uint32_t> tensors);

}  // namespace tpx::formats
