// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/quantized/quantized.hpp"

#include <cstdint>
#include <vector>

namespace tpx::formats {

/// Values of a part of a quantized weight, whose codes are one piece.
struct PartValues {
    Box box;             ///< in the weight
    Strides strides;     ///< of the part's elements in the order in which `scaled` has them
    ScaledCodes scaled;  ///< the values
    std::int32_t rank = -1;
};

/// The values of `weight`: of one part for each piece of its codes. Throws Error if a part ends within a block, or if
/// its scales are not stored together.
std::vector<PartValues> values_in(const Catalogue& catalogue, const QuantizedTensor& weight);

}  // namespace tpx::formats
