// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/quantize.hpp"

#include "lib/core/error.hpp"
#include "lib/exec/copy_elements.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace tpx {
namespace {

constexpr float largest_e4m3 = 448;

/// Bytes of codes or scales in one row of blocks.
std::uint64_t strip_bytes(const BlockQuantized& weight) {
    return weight.is_scales ? static_cast<std::uint64_t>(weight.scale_columns()) * sizeof(float)
                            : static_cast<std::uint64_t>(std::min(weight.block, weight.rows) * weight.columns);
}

/// Calls `body(block, row, begin, end)` for the columns of each block in each of the first `rows` rows that are held.
template <class Body>
void for_each_run(const BlockQuantized& weight, Index rows, Body&& body) {
    for (Index r = 0; r < rows; ++r)
        for (Index begin = 0; begin < weight.columns; begin += weight.block)
            body(static_cast<std::size_t>(begin / weight.block), r, begin,
                 std::min(begin + weight.block, weight.columns));
}

}  // namespace

std::uint8_t e4m3_code(float value) {
    constexpr float least_normal = 0.015625f;  // 2^-6
    constexpr float subnormal_scale = 512.0f;  // 2^9: a subnormal times this is its code
    const auto sign = static_cast<std::uint8_t>(std::signbit(value) ? 0x80 : 0);
    const float magnitude = std::fabs(value);
    if (magnitude < least_normal)
        return static_cast<std::uint8_t>(sign | static_cast<std::uint8_t>(std::nearbyint(magnitude * subnormal_scale)));
    // Rounds to the nearest, ties to even: adds half of the dropped unit, minus one if the last bit that stays is even.
    auto bits = std::bit_cast<std::uint32_t>(magnitude);
    bits += 0x7ffff + (bits >> 20 & 1);
    const std::uint32_t exponent = (bits >> 23) - 127 + 7;
    return static_cast<std::uint8_t>(sign | exponent << 3 | (bits >> 20 & 7));
}

std::uint64_t quantizing_memory(const BlockQuantized& weight) {
    const auto elements = static_cast<std::uint64_t>(std::min(weight.block, weight.rows) * weight.columns);
    const auto blocks = static_cast<std::uint64_t>(weight.scale_columns());
    const auto item = static_cast<std::uint64_t>(itemsize(weight.base.dtype));
    return elements * (item + sizeof(float) + 1) + 3 * blocks * sizeof(float);
}

void Quantizer::find_scales(const BlockQuantized& weight, Index strip, Index rows) {
    const auto blocks = static_cast<std::size_t>(weight.scale_columns());
    largest_.assign(blocks, 0);
    for_each_run(weight, rows, [&](std::size_t block, Index r, Index begin, Index end) {
        const float* row = &values_[static_cast<std::size_t>(r * weight.columns)];
        float largest = largest_[block];
        for (Index c = begin; c < end; ++c) {
            if (!std::isfinite(row[c]))
                throw failure("element ({}, {}) is {}, which cannot be quantized", strip * weight.block + r, c, row[c]);
            largest = std::max(largest, std::fabs(row[c]));
        }
        largest_[block] = largest;
    });
    factors_.resize(blocks);
    scales_.resize(blocks);
    for (std::size_t b = 0; b < blocks; ++b) {
        // PyTorch computes a number divided by a tensor as the number times reciprocals, which rounds twice.
        factors_[b] = largest_[b] > 0 ? 1 / largest_[b] * largest_e4m3 : 1;
        // If the largest magnitude is below 448 / FLT_MAX (1.3e-36), the factor overflows; scale 1 makes all codes
        // zero.
        if (std::isinf(factors_[b])) factors_[b] = 1;
        scales_[b] = 1 / factors_[b];
    }
}

void Quantizer::encode(const BlockQuantized& weight, Index rows) {
    codes_.resize(static_cast<std::size_t>(rows * weight.columns));
    for_each_run(weight, rows, [&](std::size_t block, Index r, Index begin, Index end) {
        const float factor = factors_[block];
        for (Index c = begin; c < end; ++c) {
            const auto k = static_cast<std::size_t>(r * weight.columns + c);
            codes_[k] = std::byte{e4m3_code(std::clamp(values_[k] * factor, -largest_e4m3, largest_e4m3))};
        }
    });
}

/// Computes codes and scales of one row of blocks, unless they are held already.
void Quantizer::hold(const BlockQuantized& weight, Index strip, const Read& read) {
    if (held_ == &weight && strip_ == strip) return;
    held_ = nullptr;
    const Index first = strip * weight.block;
    const Index rows = std::min(weight.block, weight.rows - first);
    const auto count = static_cast<std::size_t>(rows * weight.columns);
    const auto item = static_cast<std::size_t>(itemsize(weight.base.dtype));
    stored_.resize(count * item);
    read(weight.base.file, weight.base.offset + static_cast<std::uint64_t>(first * weight.columns) * item, stored_);
    values_.resize(count);
    cast_elements(static_cast<Index>(count), stored_.data(), weight.base.dtype,
                  reinterpret_cast<std::byte*>(values_.data()), DType::f32);
    find_scales(weight, strip, rows);
    if (!weight.is_scales) encode(weight, rows);
    held_ = &weight;
    strip_ = strip;
}

void Quantizer::read(const BlockQuantized& weight, std::uint64_t offset, std::span<std::byte> into, const Read& read) {
    const std::uint64_t whole = strip_bytes(weight);
    while (!into.empty()) {
        hold(weight, static_cast<Index>(offset / whole), read);
        const std::span<const std::byte> strip =
            weight.is_scales ? std::as_bytes(std::span{scales_}) : std::span<const std::byte>{codes_};
        const auto from = strip.subspan(offset % whole);
        const std::size_t count = std::min(from.size(), into.size());
        std::memcpy(into.data(), from.data(), count);
        offset += count;
        into = into.subspan(count);
    }
}

}  // namespace tpx
