// SPDX-License-Identifier: Apache-2.0
// Layouts of blocks and order of operations are those of gguf/quants.py (llama.cpp).
#include "lib/exec/ggml_blocks.hpp"

#include "lib/core/error.hpp"
#include "lib/exec/copy_elements.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace tpx {
namespace {

/// Elements that are computed at a time, a multiple of every block size.
constexpr Index values_at_once = 1 << 16;

/// Gives access to the bytes of a block.
class Bytes {
public:
    explicit Bytes(const std::byte* begin) : begin_{reinterpret_cast<const std::uint8_t*>(begin)} {}
    unsigned operator[](int k) const { return begin_[k]; }
    int signed_at(int k) const { return static_cast<std::int8_t>(begin_[k]); }
    unsigned bits(int at, int k) const { return begin_[at + k / 8] >> (k % 8) & 1u; }
    unsigned nibble(int at, int k, int half) const { return begin_[at + k] >> (4 * half) & 15u; }

    float half(int at) const {
        std::uint16_t bits = 0;
        std::memcpy(&bits, begin_ + at, sizeof bits);
        float value = 0;
        cast_elements(1, reinterpret_cast<const std::byte*>(&bits), DType::f16, reinterpret_cast<std::byte*>(&value),
                      DType::f32);
        return value;
    }

private:
    const std::uint8_t* begin_;
};

/// A scale times a number, plus a minimum: rounded twice, because the compiler must not fuse the two operations.
float scaled(float scale, float number, float minimum) {
    const volatile float product = scale * number;
    return product + minimum;
}

// Types of 32 elements: the low nibbles of 16 bytes come before the high nibbles.

void q4_0(const Bytes& block, float* values) {
    const float d = block.half(0);
    for (int k = 0; k < 32; ++k)
        values[k] = d * static_cast<float>(static_cast<int>(block.nibble(2, k % 16, k / 16)) - 8);
}

void q4_1(const Bytes& block, float* values) {
    const float d = block.half(0), m = block.half(2);
    for (int k = 0; k < 32; ++k) values[k] = scaled(d, static_cast<float>(block.nibble(4, k % 16, k / 16)), m);
}

void q5_0(const Bytes& block, float* values) {
    const float d = block.half(0);
    for (int k = 0; k < 32; ++k) {
        const unsigned q = block.nibble(6, k % 16, k / 16) | block.bits(2, k) << 4;
        values[k] = d * static_cast<float>(static_cast<int>(q) - 16);
    }
}

void q5_1(const Bytes& block, float* values) {
    const float d = block.half(0), m = block.half(2);
    for (int k = 0; k < 32; ++k)
        values[k] = scaled(d, static_cast<float>(block.nibble(8, k % 16, k / 16) | block.bits(4, k) << 4), m);
}

void q8_0(const Bytes& block, float* values) {
    const float d = block.half(0);
    for (int k = 0; k < 32; ++k) values[k] = static_cast<float>(block.signed_at(2 + k)) * d;
}

constexpr std::array<float, 16> iq4_values{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

void iq4_nl(const Bytes& block, float* values) {
    const float d = block.half(0);
    for (int k = 0; k < 32; ++k) values[k] = d * iq4_values[block.nibble(2, k % 16, k / 16)];
}

void mxfp4(const Bytes& block, float* values) {
    constexpr std::array<float, 16> doubled{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    const unsigned e = block[0];
    const float d = std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);
    for (int k = 0; k < 32; ++k) values[k] = d * doubled[block.nibble(1, k % 16, k / 16)];
}

// Types of 256 elements.

/// The two bits of element `k` in 64 bytes from `at` on: 32 bytes contain 128 elements, those in the lowest bits first.
unsigned pair_of_bits(const Bytes& block, int at, int k) {
    return block[at + k / 128 * 32 + k % 32] >> (k / 32 % 4 * 2) & 3u;
}

void q2_k(const Bytes& block, float* values) {
    const float d = block.half(80), dmin = block.half(82);
    for (int k = 0; k < 256; ++k) {
        const unsigned scale = block[k / 16];
        const float dl = d * static_cast<float>(scale & 15u), ml = dmin * static_cast<float>(scale >> 4);
        values[k] = scaled(dl, static_cast<float>(pair_of_bits(block, 16, k)), -ml);
    }
}

void q3_k(const Bytes& block, float* values) {
    const float d = block.half(108);
    for (int k = 0; k < 256; ++k) {
        const int s = k / 16;
        const unsigned low = block.nibble(96, s % 8, s / 8), high = block[104 + s % 4] >> (s / 4 * 2) & 3u;
        const float dl = d * static_cast<float>(static_cast<int>(low | high << 4) - 32);
        const unsigned mask = block[k % 32] >> (k / 32) & 1u;
        const int q = static_cast<int>(pair_of_bits(block, 32, k)) - (mask != 0 ? 0 : 4);
        values[k] = dl * static_cast<float>(q);
    }
}

/// Scale and minimum number `s` of 8, of six bits each, in 12 bytes from `at` on.
std::pair<unsigned, unsigned> scale_and_minimum(const Bytes& block, int at, int s) {
    if (s < 4) return {block[at + s] & 63u, block[at + 4 + s] & 63u};
    const unsigned both = block[at + 4 + s];
    return {(both & 15u) | (block[at + s - 4] >> 2 & 0x30u), both >> 4 | (block[at + s] >> 2 & 0x30u)};
}

/// Elements of four bits and, if `high` is not 0, a fifth bit from byte `high` on, with scales and minima.
void q4_or_5_k(const Bytes& block, int low, int high, float* values) {
    const float d = block.half(0), dmin = block.half(2);
    for (int s = 0; s < 8; ++s) {
        const auto [scale, minimum] = scale_and_minimum(block, 4, s);
        const float dl = d * static_cast<float>(scale), ml = dmin * static_cast<float>(minimum);
        for (int k = 0; k < 32; ++k) {
            unsigned q = block.nibble(low, s / 2 * 32 + k, s % 2);
            if (high != 0) q |= (block[high + k] >> s & 1u) << 4;
            values[s * 32 + k] = scaled(dl, static_cast<float>(q), -ml);
        }
    }
}

void q6_k(const Bytes& block, float* values) {
    const float d = block.half(208);
    for (int k = 0; k < 256; ++k) {
        const float dl = d * static_cast<float>(block.signed_at(192 + k / 16));
        const unsigned low = block.nibble(0, k / 128 * 64 + k % 64, k / 64 % 2);
        const unsigned q = low | pair_of_bits(block, 128, k) << 4;
        values[k] = dl * static_cast<float>(static_cast<int>(q) - 32);
    }
}

void iq4_xs(const Bytes& block, float* values) {
    const float d = block.half(0);
    const unsigned high = block[2] | block[3] << 8;
    for (int s = 0; s < 8; ++s) {
        const unsigned scale = block.nibble(4, s / 2, s % 2) | (high >> (2 * s) & 3u) << 4;
        const float dl = d * static_cast<float>(static_cast<int>(scale) - 32);
        for (int k = 0; k < 32; ++k) values[s * 32 + k] = dl * iq4_values[block.nibble(8, s * 16 + k % 16, k / 16)];
    }
}

void tq1_0(const Bytes& block, float* values) {
    constexpr std::array<unsigned, 5> powers{1, 3, 9, 27, 81};
    const float d = block.half(52);
    // A byte stores five base-3 digits (the last four bytes: four digits each) as a fraction of 256.
    const auto digits = [&](int at, int bytes, int count) {
        for (int power = 0; power < count; ++power)
            for (int k = 0; k < bytes; ++k) {
                const unsigned fraction = block[at + k] * powers[static_cast<std::size_t>(power)] & 255u;
                *values++ = d * static_cast<float>(static_cast<int>(fraction * 3 >> 8) - 1);
            }
    };
    digits(0, 32, 5);
    digits(32, 16, 5);
    digits(48, 4, 4);
}

void tq2_0(const Bytes& block, float* values) {
    const float d = block.half(64);
    for (int k = 0; k < 256; ++k) values[k] = d * static_cast<float>(static_cast<int>(pair_of_bits(block, 0, k)) - 1);
}

}  // namespace

void dequantize_block(GgmlType type, const std::byte* bytes, float* values) {
    const Bytes block{bytes};
    switch (type) {
        case GgmlType::q4_0:
            return q4_0(block, values);
        case GgmlType::q4_1:
            return q4_1(block, values);
        case GgmlType::q5_0:
            return q5_0(block, values);
        case GgmlType::q5_1:
            return q5_1(block, values);
        case GgmlType::q8_0:
            return q8_0(block, values);
        case GgmlType::q2_k:
            return q2_k(block, values);
        case GgmlType::q3_k:
            return q3_k(block, values);
        case GgmlType::q4_k:
            return q4_or_5_k(block, 16, 0, values);
        case GgmlType::q5_k:
            return q4_or_5_k(block, 48, 16, values);
        case GgmlType::q6_k:
            return q6_k(block, values);
        case GgmlType::iq4_nl:
            return iq4_nl(block, values);
        case GgmlType::iq4_xs:
            return iq4_xs(block, values);
        case GgmlType::tq1_0:
            return tq1_0(block, values);
        case GgmlType::tq2_0:
            return tq2_0(block, values);
        case GgmlType::mxfp4:
            return mxfp4(block, values);
    }
    throw failure("type {} of ggml has no values", static_cast<int>(type));
}

void BlockReader::read(const GgmlTensor& tensor, std::uint64_t offset, std::span<std::byte> into, const Read& read) {
    const auto size = static_cast<std::size_t>(itemsize(tensor.dtype));
    if (offset % size != 0 || into.size() % size != 0)
        throw failure("{} bytes from {} are not whole elements of {}", into.size(), offset, name(tensor.dtype));
    auto element = static_cast<Index>(offset / size);
    while (!into.empty()) {
        const Index wanted =
            std::min(static_cast<Index>(into.size() / size), values_at_once - element % tensor.block_elements);
        const Index first = element / tensor.block_elements;
        const Index count = (element + wanted - 1) / tensor.block_elements + 1 - first;
        blocks_.resize(static_cast<std::size_t>(count * tensor.block_bytes));
        values_.resize(static_cast<std::size_t>(count * tensor.block_elements));
        read(tensor.file, tensor.offset + static_cast<std::uint64_t>(first * tensor.block_bytes), blocks_);
        for (Index k = 0; k < count; ++k)
            dequantize_block(tensor.type, blocks_.data() + k * tensor.block_bytes,
                             values_.data() + k * tensor.block_elements);
        const float* values = values_.data() + (element - first * tensor.block_elements);
        cast_elements(wanted, reinterpret_cast<const std::byte*>(values), DType::f32, into.data(), tensor.dtype);
        into = into.subspan(static_cast<std::size_t>(wanted) * size);
        element += wanted;
    }
}

}  // namespace tpx
