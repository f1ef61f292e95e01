// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/dequantize.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <vector>

using namespace tpx;

namespace {

/// `count` values of `tensor` as f32, starting at `first`. Its codes are in file 0, its scales in file 1.
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

TEST_CASE("each FP4 code times each power of two, including byte 255, is rounded once") {
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

TEST_CASE("byte 255 of f8_e8m0 is NaN; the other bytes are the same powers of two") {
    const std::vector<float> plain = values(mxfp4(255, DType::u8), all_codes(255), all_bytes(), 0, 16 * 255);
    const std::vector<float> found = values(mxfp4(256, DType::f8_e8m0), all_codes(256), all_bytes(), 0, 16 * 256);
    CHECK(std::equal(plain.begin(), plain.end(), found.begin()));
    CHECK(std::all_of(found.begin() + 16 * 255, found.end(), [](float value) { return std::isnan(value); }));
}

TEST_CASE("reading a part gives the values of that part") {
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

namespace {

/// A weight stored in words, with its parts in files 0 (codes), 1 (scales) and 2 (zeros), and its values.
struct Words {
    ScaledCodes tensor;
    std::array<std::vector<std::byte>, 3> files;
    std::vector<float> values;
};

/// Numbers below `end`.
std::vector<unsigned> random_numbers(std::mt19937& engine, std::size_t count, unsigned end) {
    std::vector<unsigned> numbers(count);
    for (unsigned& number : numbers) number = std::uniform_int_distribution<unsigned>{0, end - 1}(engine);
    return numbers;
}

/// Codes in words, the first in the low bits; of each eight codes, AWQ stores 0, 2, 4 and 6 before the others.
std::vector<std::byte> to_words(const std::vector<unsigned>& codes, int bits, bool awq) {
    constexpr std::array<std::size_t, 8> order{0, 2, 4, 6, 1, 3, 5, 7};
    std::vector<std::byte> words(codes.size() * static_cast<std::size_t>(bits) / 8);
    for (std::size_t k = 0; k < codes.size(); ++k) {
        const std::size_t at = k * static_cast<std::size_t>(bits);
        const unsigned code = codes[awq ? k / 8 * 8 + order[k % 8] : k];
        words[at / 8] |= static_cast<std::byte>(code << at % 8);
        if (at % 8 + static_cast<std::size_t>(bits) > 8)
            words[at / 8 + 1] |= static_cast<std::byte>(code >> (8 - at % 8));
    }
    return words;
}

/// Rows of `columns` codes as GPTQ stores them: each column is a bit stream, of which each row of words contains 32
/// bits.
std::vector<std::byte> in_columns(const std::vector<unsigned>& codes, std::size_t columns, int bits) {
    const std::size_t rows = codes.size() / columns;
    std::vector<std::byte> words(codes.size() * static_cast<std::size_t>(bits) / 8);
    for (std::size_t k = 0; k < codes.size(); ++k) {
        for (std::size_t b = 0; b < static_cast<std::size_t>(bits); ++b) {
            const std::size_t bit = k / columns * static_cast<std::size_t>(bits) + b;
            const std::size_t byte = (bit / 32 * columns + k % columns) * 4 + bit % 32 / 8;
            words[byte] |= static_cast<std::byte>((codes[k] >> b & 1) << bit % 8);
        }
    }
    REQUIRE(rows * static_cast<std::size_t>(bits) % 32 == 0);
    return words;
}

ScaledCodes words_of(std::size_t rows, std::size_t columns, std::size_t group, int bits, bool awq) {
    const auto packing = awq ? ScaledCodes::Packing::interleaved : ScaledCodes::Packing::columns;
    return {.code = ScaledCodes::Code::unsigned_integer,
            .bits = bits,
            .codes = {.file = 0, .dtype = DType::i32},
            .row_bytes = awq ? columns / 2 : 4 * columns,
            .scales = {.file = 1, .dtype = DType::f32},
            .zeros = ScaledCodes::Part{.file = 2, .dtype = DType::i32},
            .packing = packing,
            .zero_packing = awq ? packing : ScaledCodes::Packing::rows,
            .zero_offset = awq ? 0 : 1,
            .rows = static_cast<Index>(rows),
            .columns = static_cast<Index>(columns),
            .matrix_rows = static_cast<Index>(rows),
            .block_rows = static_cast<Index>(group),
            .dtype = DType::f32};
}

Words random_words(std::mt19937& engine, bool awq, int bits, bool sorted) {
    const std::vector<unsigned> sizes = random_numbers(engine, 3, 4);
    const auto unit = static_cast<std::size_t>(bits == 3 ? 32 : 32 / bits);  // of codes that fill whole words
    const std::size_t group = unit * (1 + sizes[0]), groups = 1 + sizes[1], columns = unit * (1 + sizes[2]);
    const std::size_t rows = group * groups;
    Words made{words_of(rows, columns, group, bits, awq), {}, {}};
    std::vector<std::uint32_t> group_of(rows);
    for (std::size_t r = 0; r < rows; ++r) group_of[r] = static_cast<std::uint32_t>(r / group);
    if (sorted) std::ranges::shuffle(group_of, engine);
    if (sorted) made.tensor.groups = std::make_shared<const std::vector<std::uint32_t>>(group_of);
    const unsigned end = 1u << bits;
    const std::vector<unsigned> codes = random_numbers(engine, rows * columns, end);
    const std::vector<unsigned> zeros = random_numbers(engine, groups * columns, end);
    std::vector<float> scales;
    for (unsigned number : random_numbers(engine, groups * columns, 1000))
        scales.push_back(static_cast<float>(1 + number) / 1024);
    made.files[0] = awq ? to_words(codes, bits, awq) : in_columns(codes, columns, bits);
    const auto bytes = std::as_bytes(std::span{scales});
    made.files[1].assign(bytes.begin(), bytes.end());
    std::vector<unsigned> stored = zeros;
    for (unsigned& zero : stored) zero = (zero + end - static_cast<unsigned>(made.tensor.zero_offset)) % end;
    made.files[2] = to_words(stored, bits, awq);
    for (std::size_t k = 0; k < codes.size(); ++k) {
        const std::size_t at = group_of[k / columns] * columns + k % columns;
        made.values.push_back((static_cast<float>(codes[k]) - static_cast<float>(zeros[at])) * scales[at]);
    }
    return made;
}

}  // namespace

TEST_CASE("words of GPTQ and AWQ give the same values wherever reading begins and ends") {
    std::mt19937 engine{17};
    for (int round = 0; round < 300; ++round) {
        const bool awq = round % 3 == 0;
        constexpr std::array<int, 4> sizes{2, 3, 4, 8};
        const Words made = random_words(engine, awq, awq ? 4 : sizes[round / 3 % 4], round % 5 == 1);
        Dequantizer dequantizer;
        const std::size_t all = made.values.size();
        for (int part = 0; part < 5; ++part) {
            const std::size_t begin = part == 0 ? 0 : std::uniform_int_distribution<std::size_t>{0, all - 1}(engine);
            const std::size_t end = part == 0 ? all : std::uniform_int_distribution{begin + 1, all}(engine);
            std::vector<float> out(end - begin);
            dequantizer.read(made.tensor, begin * sizeof(float), std::as_writable_bytes(std::span{out}),
                             [&](std::uint32_t file, std::uint64_t offset, std::span<std::byte> into) {
                                 const std::vector<std::byte>& from = made.files[file];
                                 REQUIRE(offset + into.size() <= from.size());
                                 std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(offset), into.size(),
                                             into.begin());
                             });
            REQUIRE(std::ranges::equal(out, std::span{made.values}.subspan(begin, end - begin)));
        }
    }
}
