// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/scaled_codes.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace tpx {

/// The most memory that a Dequantizer uses, in bytes.
inline constexpr std::uint64_t dequantizing_memory = 2 << 20;

/// Computes values of quantized tensors, reading only the codes and scales that they need; reuses its buffers.
class Dequantizer {
public:
    /// Fills a span with the bytes of a file of the catalogue from an offset on.
    using Read = std::function<void(std::uint32_t file, std::uint64_t offset, std::span<std::byte> into)>;

    /// Fills `into` with the bytes of the values of `tensor`, row by row, from byte `offset` on; both must be whole
    /// elements.
    void read(const ScaledCodes& tensor, std::uint64_t offset, std::span<std::byte> into, const Read& read);

private:
    struct Run;
    Run run_from(const ScaledCodes& tensor, Index element, Index count) const;
    void read_codes(const ScaledCodes& tensor, const Run& run, const Read& read);
    void read_words(const ScaledCodes& tensor, const Run& run, const Read& read);
    void read_scales(const ScaledCodes& tensor, const Run& run, const Read& read);
    void read_packed_zeros(const ScaledCodes& tensor, Index first, Index last, const Read& read);
    void compute(const ScaledCodes& tensor, const Run& run);
    void compute_words(const ScaledCodes& tensor, const Run& run);

    std::vector<std::byte> codes_;
    std::vector<std::byte> stored_;  // scales, then zeros, as stored
    std::vector<float> scales_;
    std::vector<float> zeros_;
    std::vector<float> values_;
};

}  // namespace tpx
