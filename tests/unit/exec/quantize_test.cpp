// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/quantize.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace tpx;

namespace {

/// The value of an E4M3 code, by the definition of the type.
float value_of(int code) {
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    const float magnitude =
        exponent == 0 ? std::ldexp(float(mantissa), -9) : std::ldexp(1 + float(mantissa) / 8, exponent - 7);
    return code < 128 ? magnitude : -magnitude;
}

/// The bytes of the codes or scales of `values`, from `offset` on, read in parts of `part` bytes.
std::vector<std::byte> made_of(const std::vector<float>& values, BlockQuantized weight, std::size_t part) {
    std::vector<std::byte> bytes(weight.size());
    weight.base.dtype = DType::f32;
    Quantizer quantizer;
    const auto read = [&](std::uint32_t, std::uint64_t offset, std::span<std::byte> into) {
        REQUIRE(offset + into.size() <= values.size() * sizeof(float));
        std::memcpy(into.data(), reinterpret_cast<const std::byte*>(values.data()) + offset, into.size());
    };
    for (std::size_t at = 0; at < bytes.size(); at += part)
        quantizer.read(weight, at, std::span{bytes}.subspan(at, std::min(part, bytes.size() - at)), read);
    return bytes;
}

}  // namespace

TEST_CASE("the E4M3 code of a value is the nearest one, with ties to even") {
    for (int code = 0; code < 127; ++code) {
        for (const int sign : {0, 128}) {
            CHECK(e4m3_code(value_of(code | sign)) == (code | sign));
            if (code == 126) continue;
            const float low = value_of(code | sign), high = value_of((code + 1) | sign), middle = (low + high) / 2;
            CHECK(e4m3_code(middle) == ((code % 2 == 0 ? code : code + 1) | sign));
            CHECK(e4m3_code(std::nextafter(middle, low)) == (code | sign));
            CHECK(e4m3_code(std::nextafter(middle, high)) == ((code + 1) | sign));
        }
    }
}

TEST_CASE("each block has the scale of its largest value, and reads of any size give the same bytes") {
    std::mt19937 random{7};
    std::normal_distribution<float> normal;
    const BlockQuantized codes{{}, 150, 70, 64, false}, scales{{}, 150, 70, 64, true};
    std::vector<float> values(150 * 70);
    for (float& value : values) value = normal(random);
    for (Index r = 64; r < 128; ++r)
        for (Index c = 64; c < 70; ++c) values[std::size_t(r * 70 + c)] = 0;
    const auto made = made_of(values, codes, values.size()), made_scales = made_of(values, scales, 24);
    REQUIRE(made_scales.size() == 3 * 2 * sizeof(float));
    std::vector<float> read_scales(6);
    std::memcpy(read_scales.data(), made_scales.data(), made_scales.size());
    CHECK(read_scales[3] == 1);
    for (Index r = 0; r < 150; ++r) {
        for (Index c = 0; c < 70; ++c) {
            const float scale = read_scales[std::size_t(r / 64 * 2 + c / 64)];
            const auto k = std::size_t(r * 70 + c);
            const float back = value_of(std::to_integer<int>(made[k])) * scale;
            CHECK(std::fabs(back - values[k]) <= std::max(std::fabs(values[k]) / 16, scale / 1024));
        }
    }
    for (const std::size_t part : {1, 7, 4096, 64 * 70 + 1}) {
        CHECK(made_of(values, codes, part) == made);
        CHECK(made_of(values, scales, part) == made_scales);
    }
}

TEST_CASE("values without a code are refused, and tiny ones are zero") {
    std::vector<float> values(12, 1e-37f);
    const BlockQuantized codes{{}, 3, 4, 2, false};
    for (const std::byte code : made_of(values, codes, 12)) CHECK(code == std::byte{0});
    values[6] = std::numeric_limits<float>::infinity();
    CHECK_THROWS_WITH_AS(made_of(values, codes, 12), "element (1, 2) is inf, which cannot be quantized", Error);
    values[6] = std::numeric_limits<float>::quiet_NaN();
    CHECK_THROWS_WITH_AS(made_of(values, codes, 12), doctest::Contains("element (1, 2) is nan"), Error);
}
