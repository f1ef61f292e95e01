// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/dtype.hpp"
#include "lib/core/interval.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace tpx {

/// A quantized tensor: a few bits for each element, and a scale for each block of elements. Element (r, c) has the
/// value (code - zero) * scale, computed in f32 and rounded once to `dtype`. Leading axes are rows, too.
struct ScaledCodes {
    enum class Code : std::uint8_t {
        f8_e4m3,
        f8_e5m2,
        f4_e2m1,          ///< two in a byte, the first in the low bits
        signed_integer,   ///< two's complement
        offset_integer,   ///< unsigned, minus half of its range
        unsigned_integer  ///< unsigned, with a zero point for each scale
    };
    /// How codes are packed into words of 32 bits, lowest bits first. Except for `rows`, each block has one column.
    enum class Packing : std::uint8_t {
        rows,        ///< neighbors in a row
        columns,     ///< GPTQ: neighbors in a column
        interleaved  ///< AWQ: eight neighbors in a row, 0, 2, 4 and 6 of them before 1, 3, 5 and 7
    };
    /// Stored numbers, row by row: file `file` of the catalogue from byte `offset` on.
    struct Part {
        std::uint32_t file = 0;
        std::uint64_t offset = 0;
        DType dtype = DType::u8;
    };

    Code code = Code::f8_e4m3;
    int bits = 8;  ///< of a code: 2, 3, 4 or 8
    Part codes;
    std::uint64_t row_bytes = 0;  ///< bytes from a row's first code to the next row's
    Part scales;                  ///< u8 or f8_e8m0 stand for 2^(byte - 127)
    float scale_factor = 1;       ///< all scales are multiplied by it, in f32
    float scale_divisor = 1;      ///< all scales are divided by it, in f32
    std::optional<Part> zeros;    ///< zero points, one for each scale: i8, or i32 words packed as in zero_packing
    Packing packing = Packing::rows;
    Packing zero_packing = Packing::rows;
    int zero_offset = 0;  ///< added to zero points in words, modulo their range

    Index rows = 0;  ///< of all matrices together
    Index columns = 0;
    Index matrix_rows = 1;  ///< rows of one matrix; each matrix begins with a new block
    Index block_rows = 1;
    Index block_columns = 1;
    DType dtype = DType::bf16;  ///< f32, bf16 or f16
    /// For each row, its row of scales, if the rows of a block are not consecutive; null if they are.
    std::shared_ptr<const std::vector<std::uint32_t>> groups = nullptr;

    Index scale_rows() const { return (matrix_rows + block_rows - 1) / block_rows; }
    Index scale_columns() const { return (columns + block_columns - 1) / block_columns; }
    /// The index of the scale of element (r, c) among all scales.
    Index scale_of(Index r, Index c) const {
        if (groups) return (*groups)[static_cast<std::size_t>(r)] * scale_columns() + c / block_columns;
        const Index row = r / matrix_rows * scale_rows() + r % matrix_rows / block_rows;
        return row * scale_columns() + c / block_columns;
    }
    std::uint64_t size() const { return static_cast<std::uint64_t>(rows * columns * itemsize(dtype)); }
};

}  // namespace tpx
