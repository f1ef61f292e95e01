// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/scaled_codes.hpp"

#include <cstdint>

namespace tpx {

/// A weight that is quantized when it is read, as transformers does it: the codes are FP8 (E4M3), and each block of
/// `block` rows and columns has a scale in f32, the largest magnitude in it divided by that of E4M3, 448. Blocks at the
/// ends of rows and columns may be smaller. Of the two tensors that make up the quantized weight, this is one.
struct BlockQuantized {
    ScaledCodes::Part base;  ///< rows * columns numbers of f32, bf16 or f16, row by row
    Index rows = 0;
    Index columns = 0;
    Index block = 128;
    bool has_scales = false;  ///< the bytes are those of the scales, not of the codes

    Index scale_rows() const { return (rows + block - 1) / block; }
    Index scale_columns() const { return (columns + block - 1) / block; }
    std::uint64_t size() const {
        return has_scales ? static_cast<std::uint64_t>(scale_rows() * scale_columns()) * sizeof(float)
                          : static_cast<std::uint64_t>(rows * columns);
    }
};

}  // namespace tpx
