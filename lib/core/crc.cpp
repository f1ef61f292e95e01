// SPDX-License-Identifier: Apache-2.0
#include "lib/core/crc.hpp"

#include <immintrin.h>
#include <isa-l.h>

#include <algorithm>
#include <cassert>
#include <cstring>

namespace tpx {
namespace {

// Rows of a message at equal distance, `stride` bytes apart in memory.
struct Rows {
    const std::byte* first;
    Index stride;
    Index count;
};

// The first of two rows at message distance d is multiplied by x^d: each of its 128-bit pieces, with high half H and
// low half L, is replaced by the congruent H x^(d+64) + L x^d. In bit-reflected order, H is the low half and each
// product has an extra factor x, for which the constants compensate.
__attribute__((target("pclmul"))) inline __m128i fold(__m128i value, __m128i constants, __m128i piece) {
    const __m128i high = _mm_clmulepi64_si128(value, constants, 0x00);
    return _mm_xor_si128(_mm_xor_si128(high, _mm_clmulepi64_si128(value, constants, 0x11)), piece);
}

// Folds `Pieces` adjacent pieces of each row; they stay in registers from row to row.
template <int Pieces>
__attribute__((target("pclmul"))) void fold_column(__m128i* folded, Rows rows, __m128i constants) {
    __m128i value[Pieces];
    for (int k = 0; k < Pieces; ++k) value[k] = folded[k];
    for (; rows.count > 0; --rows.count, rows.first += rows.stride) {
        const auto* pieces = reinterpret_cast<const __m128i*>(rows.first);
        for (int k = 0; k < Pieces; ++k) value[k] = fold(value[k], constants, _mm_loadu_si128(pieces + k));
    }
    for (int k = 0; k < Pieces; ++k) folded[k] = value[k];
}

// Folds the first `length` < 16 bytes of each row, as the end of a piece that begins with zeros.
__attribute__((target("pclmul"))) void fold_beginning(__m128i* folded, Rows rows, __m128i constants,
                                                      std::size_t length) {
    for (; rows.count > 0; --rows.count, rows.first += rows.stride) {
        std::byte piece[16] = {};
        std::memcpy(piece + 16 - length, rows.first, length);
        *folded = fold(*folded, constants, _mm_loadu_si128(reinterpret_cast<const __m128i*>(piece)));
    }
}

__attribute__((target("pclmul"))) void fold_rows(__m128i* folded, std::size_t length, Rows rows, __m128i constants) {
    if (const std::size_t odd = length % 16; odd != 0) {
        fold_beginning(folded++, rows, constants, odd);
        rows.first += odd;
    }
    std::size_t pieces = length / 16;
    for (; pieces >= 8; pieces -= 8, folded += 8, rows.first += 128) fold_column<8>(folded, rows, constants);
    if (pieces & 4) fold_column<4>(folded, rows, constants), folded += 4, rows.first += 64;
    if (pieces & 2) fold_column<2>(folded, rows, constants), folded += 2, rows.first += 32;
    if (pieces & 1) fold_column<1>(folded, rows, constants);
}

// The same on a machine without carry-less multiplication: the folded row is one number, stored in its first bytes.
void fold_rows_slowly(std::byte* folded, std::size_t length, Rows rows, const RowFold::Step& step) {
    std::uint64_t crc;
    std::memcpy(&crc, folded, sizeof crc);
    for (; rows.count > 0; --rows.count, rows.first += rows.stride)
        crc = Crc64::shift(crc, step.bytes) ^ Crc64::of({rows.first, length});
    std::memcpy(folded, &crc, sizeof crc);
}

// Barrett reduction: with m = floor(x^128 / P), the quotient of H x^64 + L is floor(H m / x^64). `barrett` is m without
// its x^64 term.
constexpr std::uint64_t polynomial = Crc64::power(64);
constexpr std::uint64_t barrett = [] {
    std::uint64_t quotient = 0;
    std::uint64_t remainder = polynomial;
    for (int bit = 0; bit < 64; ++bit) {
        quotient |= (remainder & 1) << bit;
        remainder = (remainder >> 1) ^ (remainder & 1 ? polynomial : 0);
    }
    return quotient;
}();

struct Product {
    std::uint64_t high;  // H of the product H x^64 + L
    std::uint64_t low;
};

__attribute__((target("pclmul"))) Product carry_less(std::uint64_t a, std::uint64_t b) {
    const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<long long>(a)),
                                                 _mm_cvtsi64_si128(static_cast<long long>(b)), 0x00);
    const auto first = static_cast<std::uint64_t>(_mm_cvtsi128_si64(product));
    const auto second = static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm_unpackhi_epi64(product, product)));
    return {first << 1, second << 1 | first >> 63};
}

__attribute__((target("pclmul"))) std::uint64_t multiply_quickly(std::uint64_t a, std::uint64_t b) {
    const Product product = carry_less(a, b);
    const std::uint64_t quotient = product.high ^ carry_less(product.high, barrett).high;
    return product.low ^ carry_less(quotient, polynomial).low;
}

bool has_multiplication() {
    static const bool has = __builtin_cpu_supports("pclmul") != 0;
    return has;
}

}  // namespace

template <>
std::uint64_t Crc64::of(std::span<const std::byte> bytes) {
    return ~crc64_ecma_refl(~std::uint64_t{0}, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

template <>
std::uint32_t Crc32::of(std::span<const std::byte> bytes) {
    return ~crc32_gzip_refl(~std::uint32_t{0}, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

std::uint64_t multiply(std::uint64_t a, std::uint64_t b) {
    return has_multiplication() ? multiply_quickly(a, b) : Crc64::times(a, b);
}

std::uint32_t zip_crc(std::uint32_t linear, std::uint64_t length) {
    return ~(linear ^ Crc32::shift(~std::uint32_t{0}, length));
}

RowFold::Step RowFold::step(std::uint64_t bytes) {
    return {bytes, Crc64::power(8 * bytes + 63), Crc64::power(8 * bytes - 1)};
}

RowFold::RowFold(std::size_t length) : length_{length}, padding_{(16 - length % 16) % 16} {
    assert(0 < length && length <= longest);
    std::memset(row_.data(), 0, length_ + padding_);
}

void RowFold::add(const std::byte* rows, Index stride, Index count, const Step& step) {
    if (!has_multiplication()) return fold_rows_slowly(row_.data(), length_, {rows, stride, count}, step);
    const __m128i constants = _mm_set_epi64x(static_cast<long long>(step.high), static_cast<long long>(step.low));
    fold_rows(reinterpret_cast<__m128i*>(row_.data()), length_, {rows, stride, count}, constants);
}

std::uint64_t RowFold::crc() const {
    if (has_multiplication()) return Crc64::of({row_.data(), length_ + padding_});
    std::uint64_t crc;
    std::memcpy(&crc, row_.data(), sizeof crc);
    return crc;
}

}  // namespace tpx
