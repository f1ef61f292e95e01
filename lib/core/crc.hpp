// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/interval.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace tpx {

/// A cyclic redundancy check without initial value or final inversion. It is linear over GF(2): the CRC of a message is
/// the XOR of the CRCs of its fragments, each shifted by the bytes that follow the fragment, in any order. Words and
/// polynomial are bit-reflected: the most significant bit is the coefficient of x^0.
template <class Word, Word Polynomial>
class LinearCrc {
public:
    using Value = Word;
    static constexpr int bits = std::numeric_limits<Word>::digits;

    /// The CRC of `bytes`.
    static Word of(std::span<const std::byte> bytes);

    /// The CRC of a message whose CRC is `crc`, after appending `bytes` zero bytes.
    static constexpr Word shift(Word crc, std::uint64_t bytes) { return times(crc, power(8 * bytes)); }

    /// The product of two remainders.
    static constexpr Word times(Word a, Word b) {
        Word product = 0;
        for (int k = bits - 1; k >= 0; --k) {
            product ^= b & (Word{0} - (a >> k & 1));
            b = (b >> 1) ^ (Polynomial & (Word{0} - (b & 1)));
        }
        return product;
    }

    /// x to the `exponent`.
    static constexpr Word power(std::uint64_t exponent) {
        Word product = Word{1} << (bits - 1);
        for (std::size_t nibble = 0; exponent != 0; ++nibble, exponent >>= 4) {
            if ((exponent & 15) != 0) product = times(product, powers[nibble][exponent & 15]);
        }
        return product;
    }

private:
    // powers[k][d] = x^(d * 16^k)
    using Powers = std::array<std::array<Word, 16>, 16>;
    static constexpr Powers powers = [] {
        Powers table{};
        Word base = Word{1} << (bits - 2);
        for (auto& row : table) {
            row[0] = Word{1} << (bits - 1);
            for (std::size_t d = 1; d < 16; ++d) row[d] = times(row[d - 1], base);
            base = times(row[15], base);
        }
        return table;
    }();
};

/// The polynomial of ECMA-182, as in xz.
using Crc64 = LinearCrc<std::uint64_t, 0xc96c5795d7870f42>;

/// The polynomial of zip and Ethernet.
using Crc32 = LinearCrc<std::uint32_t, 0xedb88320>;

template <>
std::uint64_t Crc64::of(std::span<const std::byte> bytes);
template <>
std::uint32_t Crc32::of(std::span<const std::byte> bytes);

/// Crc64::times, as fast as the machine allows.
std::uint64_t multiply(std::uint64_t a, std::uint64_t b);

/// The CRC-32 that a zip archive stores for `length` bytes whose linear CRC is `linear`.
std::uint32_t zip_crc(std::uint32_t linear, std::uint64_t length);

/// Computes the CRC of a message that is zero except for rows of equal length, which are added one after another. A row
/// costs two carry-less multiplications for each 16 bytes, however short it is.
class RowFold {
public:
    /// The longest row in bytes.
    static constexpr std::size_t longest = 128;

    /// A distance in the message between the starts of two rows, and the factors by which it shifts earlier rows.
    struct Step {
        std::uint64_t bytes = 0;
        std::uint64_t low = 0;   // x^(8 bytes + 63)
        std::uint64_t high = 0;  // x^(8 bytes - 1)
    };
    static Step step(std::uint64_t bytes);

    /// Rows have `length` bytes, 1 to `longest`.
    explicit RowFold(std::size_t length);

    /// Appends `count` rows: in memory they are `stride` bytes apart; in the message each starts `step` after the
    /// previous one.
    void add(const std::byte* rows, Index stride, Index count, const Step& step);

    /// The CRC of the message up to the end of the last row.
    std::uint64_t crc() const;

private:
    std::size_t length_;
    std::size_t padding_;  // zero bytes before each row that make its length a multiple of 16
    alignas(16) std::array<std::byte, longest> row_;
};

}  // namespace tpx
