// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/dequantize.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

using namespace tpx;

namespace {

/// `count` values of `tensor` as f32 from `first` on. Its codes are file 0, its scales file 1.
std::vector<float> values(const ScaledCodes& tensor, const std::vector<std::byte>& codes,
                          const std::vector<std::byte>& scales, std::size_t first, std::size_t count) {
    std::vector<float> out(count);
    Dequantizer dequantizer;
    dequantizer.read(tensor, first * sizeof(float), std::as_writable_bytes(std::span{out}),
                     [&](std::uint32_t file, std::uint64_t offset, std::span<std::byte> into) {
                         const std::vector<std::byte>& from = file == 0 ? codes : scales;
                         REQUIRE(offset + into.size() <= from.size());
                         std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(offset), into.size(), into.begin());
                     });
    return out;
}

/// `rows` rows of 16 codes with a scale each.
ScaledCodes mxfp4(Index rows, DType scales) {
    return {.code = ScaledCodes::Code::f4_e2m1,
            .bits = 4,
            .codes = {.file = 0},
            .row_bytes = 8,
            .scales = {.file = 1, .dtype = scales},
            .zeros = {},
            .rows = rows,
            .columns = 16,
            .matrix_rows = rows,
            .block_columns = 16,
            .dtype = DType::f32};
}

/// All 4-bit codes, in order, `rows` times.
std::vector<std::byte> all_codes(int rows) {
    std::vector<std::byte> codes;
    for (int k = 0; k < 8 * rows; ++k) codes.push_back(static_cast<std::byte>(2 * (k % 8) | (2 * (k % 8) + 1) << 4));
    return codes;
}

std::vector<std::byte> all_bytes() {
    std::vector<std::byte> bytes;
    for (int k = 0; k < 256; ++k) bytes.push_back(static_cast<std::byte>(k));
    return bytes;
}

constexpr std::array<double, 8> magnitudes{0, 0.5, 1, 1.5, 2, 3, 4, 6};

}  // namespace

TEST_CASE("each FP4 code times each power of two is rounded once, that of byte 255 included") {
    const std::vector<float> found = values(mxfp4(256, DType::u8), all_codes(256), all_bytes(), 0, 16 * 256);
    for (std::size_t scale = 0; scale < 256; ++scale)
        for (std::size_t code = 0; code < 16; ++code) {
            const double exact =
                std::ldexp(code < 8 ? magnitudes[code] : -magnitudes[code - 8], static_cast<int>(scale) - 127);
            float expected = std::copysign(HUGE_VALF, code < 8 ? 1.0f : -1.0f);
            if (std::abs(exact) <= std::numeric_limits<float>::max())
                expected = std::copysign(static_cast<float>(exact), expected);
            CAPTURE(scale);
            CAPTURE(code);
            const float value = found[16 * scale + code];
            CHECK(std::bit_cast<std::uint32_t>(value) == std::bit_cast<std::uint32_t>(expected));
        }
}

TEST_CASE("byte 255 of f8_e8m0 is NaN, and the others are the same powers of two") {
    const std::vector<float> plain = values(mxfp4(255, DType::u8), all_codes(255), all_bytes(), 0, 16 * 255);
    const std::vector<float> found = values(mxfp4(256, DType::f8_e8m0), all_codes(256), all_bytes(), 0, 16 * 256);
    CHECK(std::equal(plain.begin(), plain.end(), found.begin()));
    CHECK(std::all_of(found.begin() + 16 * 255, found.end(), [](float value) { return std::isnan(value); }));
}

TEST_CASE("a part of the values is what lies there") {
    const ScaledCodes tensor = mxfp4(255, DType::u8);
    const std::vector<float> all = values(tensor, all_codes(255), all_bytes(), 0, 16 * 255);
    for (const std::size_t first : {0u, 1u, 15u, 16u, 37u, 3900u})
        for (const std::size_t count : {1u, 2u, 16u, 31u, 90u}) {
            CAPTURE(first);
            CAPTURE(count);
            const std::vector<float> part = values(tensor, all_codes(255), all_bytes(), first, count);
            CHECK(std::equal(part.begin(), part.end(), all.begin() + static_cast<std::ptrdiff_t>(first)));
        }
}
