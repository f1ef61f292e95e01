// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/quantized/quantized.hpp"

#include <vector>

namespace tpx::formats {

/// The quantized weights of a checkpoint of any format, whose tensors may be split: names, shapes, blocks and the
/// tensors that store them, without what is needed to compute values. Throws Error like quantized_tensors().
std::vector<QuantizedTensor> placed_tensors(const Checkpoint& checkpoint);

}  // namespace tpx::formats
