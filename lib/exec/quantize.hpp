// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/block_quantized.hpp"
#include "lib/exec/dequantize.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tpx {

/// The E4M3 code of a finite `value` from -448 to 448, rounded to the nearest, ties to even.
std::uint8_t e4m3_code(float value);

/// The maximum memory that a Quantizer uses for `weight`, in bytes.
std::uint64_t quantizing_memory(const BlockQuantized& weight);

/// Computes the codes and scales of weights that are quantized when they are read. Reuses its buffers.
class Quantizer {
public:
    using Read = Dequantizer::Read;

    /// Fills `into` with the bytes of the codes or scales of `weight`, row by row, from byte `offset` on. `weight` must
    /// outlive the next call. Throws Error for values that are infinite or not numbers.
    void read(const BlockQuantized& weight, std::uint64_t offset, std::span<std::byte> into, const Read& read);

private:
    void hold(const BlockQuantized& weight, Index strip, const Read& read);
    void find_scales(const BlockQuantized& weight, Index strip, Index rows);
    void encode(const BlockQuantized& weight, Index rows);

    const BlockQuantized* held_ = nullptr;  // the weight whose row of blocks is in the buffers
    Index strip_ = 0;                       // index of that row of blocks
    std::vector<std::byte> stored_;         // its values as stored
    std::vector<float> values_;             // its values in f32
    std::vector<float> largest_;            // largest magnitude per block
    std::vector<float> factors_;            // 1 / scale, per block
    std::vector<float> scales_;             // per block
    std::vector<std::byte> codes_;
};

}  // namespace tpx
