// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <cstdint>
#include <vector>

namespace tpx::formats {

/// The numbers of stored tensors that are scales or zeros of activations or of the KV cache beside quantized weights,
/// which weights do not need.
std::vector<std::uint32_t> activation_scales(const Checkpoint& checkpoint);

}  // namespace tpx::formats
