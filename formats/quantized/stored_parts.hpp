// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/quantized/quantized.hpp"
#include "lib/layout/reading.hpp"

#include <cstdint>
#include <map>
#include <vector>

namespace tpx::formats {

/// The axes of a weight in the order of its stored matrices: those of leading axes, of rows and of columns.
std::vector<int> matrix_axes(const QuantizedTensor& weight);

/// Whether GPTQ's numbers of groups, which count from the first group of the weight, are stored beside it.
bool has_groups(const Catalogue& catalogue, const QuantizedTensor& weight);

/// The axis along which a weight has groups.
int axis_of_groups(const Shape& weight);

/// What the tensors that `weight` is stored in have of it. With `has_numbered_groups`, the axis of groups stays whole.
std::map<std::uint32_t, std::vector<StoredAxis>> stored_parts(const Catalogue& catalogue, const QuantizedTensor& weight,
                                                              bool has_numbered_groups);

}  // namespace tpx::formats
