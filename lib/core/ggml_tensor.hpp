// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/dtype.hpp"
#include "lib/core/interval.hpp"

#include <cstdint>

namespace tpx {

/// The ggml block types that tpx can dequantize, with their numbers in GGUF files.
enum class GgmlType : std::uint8_t {
    q4_0 = 2,
    q4_1 = 3,
    q5_0 = 6,
    q5_1 = 7,
    q8_0 = 8,
    q2_k = 10,
    q3_k = 11,
    q4_k = 12,
    q5_k = 13,
    q6_k = 14,
    iq4_nl = 20,
    iq4_xs = 23,
    tq1_0 = 34,
    tq2_0 = 35,
    mxfp4 = 39
};

/// A quantized tensor of a GGUF file: blocks of elements, each with its own scales.
struct GgmlTensor {
    GgmlType type = GgmlType::q8_0;
    std::uint32_t file = 0;  ///< index into the catalogue's files
    std::uint64_t offset = 0;
    Index block_elements = 32;
    Index block_bytes = 34;
    Index elements = 0;  ///< a whole number of blocks
    DType dtype = DType::f32;

    std::uint64_t size() const { return static_cast<std::uint64_t>(elements * itemsize(dtype)); }
};

}  // namespace tpx
