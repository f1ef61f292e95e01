// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/scaled_codes.hpp"

#include <cstdint>

namespace tpx {

/// The codes or the scales of a weight that is quantized to FP8 (E4M3) while it is read. Each block of `block` x
/// `block` elements (fewer at the ends of rows and columns) has an f32 scale: the block's largest magnitude / 448. A
/// quantized weight is two tensors, each with its own BlockQuantized.
struct BlockQuantized {
    ScaledCodes::Part base;  ///< rows * columns numbers of f32, bf16 or f16, row by row
    Index rows = 0;
    Index columns = 0;
    Index block = 128;
    bool is_scales = false;  ///< the bytes are the scales, not the codes

    Index scale_rows() const { return (rows + block - 1) / block; }
    Index scale_columns() const { return (columns + block - 1) / block; }
    std::uint64_t size() const {
        return is_scales ? static_cast<std::uint64_t>(scale_rows() * scale_columns()) * sizeof(float)
                         : static_cast<std::uint64_t>(rows * columns);
    }
};

}  // namespace tpx
