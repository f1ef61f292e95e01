// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/copy_elements.hpp"

#include "tests/support/casts.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

using namespace tpx;

namespace {

// An FP8 type by its definition: mantissa bits, exponent bias, and its largest code.
struct Fp8 {
    DType dtype;
    int mantissa, bias;
    unsigned top;
};
constexpr std::array fp8_types{Fp8{DType::f8_e4m3, 3, 7, 0x7e}, Fp8{DType::f8_e5m2, 2, 15, 0x7b}};

// The value of a code up to `top` + 1, with which values above the largest one are rounded.
double fp8_value(const Fp8& type, unsigned code) {
    const int exponent = static_cast<int>(code >> type.mantissa), one = 1 << type.mantissa;
    const int fraction = static_cast<int>(code) & (one - 1);
    return std::ldexp(fraction + (exponent ? one : 0), std::max(exponent, 1) - type.bias - type.mantissa);
}

// The code nearest to a value >= 0, ties to even; `top` + 1 for an overflow.
unsigned nearest_fp8(const Fp8& type, double value) {
    unsigned best = 0;
    for (unsigned code = 1; code <= type.top + 1; ++code) {
        const double nearer = std::fabs(fp8_value(type, best) - value) - std::fabs(fp8_value(type, code) - value);
        if (nearer > 0 || (nearer == 0 && code % 2 == 0)) best = code;
    }
    return best;
}

// Floats around each code and each rounding of a type, of both signs.
std::vector<float> around(const Fp8& type) {
    std::vector<float> values;
    for (unsigned code = 0; code <= type.top; ++code) {
        const double low = fp8_value(type, code), high = fp8_value(type, code + 1);
        for (const double value : {low, (low + high) / 2, low * 0.75 + high * 0.25}) {
            const auto single = static_cast<float>(value);
            for (const float near : {std::nextafter(single, 0.0f), single, std::nextafter(single, 1e9f)})
                values.insert(values.end(), {near, -near});
        }
    }
    return values;
}

}  // namespace

TEST_CASE("every FP8 code widens to its value and returns") {
    std::vector<std::uint8_t> codes(256);
    for (std::size_t k = 0; k < codes.size(); ++k) codes[k] = static_cast<std::uint8_t>(k);
    for (const Fp8& type : fp8_types) {
        const auto floats = test::cast<std::uint8_t, float>(codes, type.dtype, DType::f32);
        const auto doubles = test::cast<std::uint8_t, double>(codes, type.dtype, DType::f64);
        const auto halves = test::cast<std::uint8_t, std::uint16_t>(codes, type.dtype, DType::f16);
        const auto bfloats = test::cast<std::uint8_t, std::uint16_t>(codes, type.dtype, DType::bf16);
        const std::array back{test::cast<float, std::uint8_t>(floats, DType::f32, type.dtype),
                              test::cast<double, std::uint8_t>(doubles, DType::f64, type.dtype),
                              test::cast<std::uint16_t, std::uint8_t>(halves, DType::f16, type.dtype),
                              test::cast<std::uint16_t, std::uint8_t>(bfloats, DType::bf16, type.dtype)};
        for (unsigned k = 0; k < 256; ++k) {
            const unsigned magnitude = k & 0x7f;
            CAPTURE(k);
            const bool is_infinite = type.dtype == DType::f8_e5m2 && magnitude == 0x7c;
            if (magnitude > type.top && !is_infinite) {
                CHECK(std::isnan(floats[k]));
                for (const auto& of : back) CHECK((of[k] & 0x7f) > (type.dtype == DType::f8_e5m2 ? 0x7c : 0x7e));
                continue;
            }
            const double value = is_infinite ? std::numeric_limits<double>::infinity() : fp8_value(type, magnitude);
            CHECK(doubles[k] == (k & 0x80 ? -value : value));
            CHECK(double{floats[k]} == doubles[k]);
            CHECK(std::signbit(floats[k]) == (k > 0x7f));
            CHECK(test::value_of(halves[k], 10) == doubles[k]);
            CHECK(test::value_of(bfloats[k], 7) == doubles[k]);
            for (const auto& of : back) CHECK(unsigned{of[k]} == k);
        }
    }
}

TEST_CASE("narrowing to FP8 rounds to the nearest, ties to even, and reports what does not fit") {
    for (const Fp8& type : fp8_types) {
        for (const float value : around(type)) {
            const unsigned nearest = nearest_fp8(type, std::fabs(double{value}));
            std::uint8_t code = 0, from_double = 0;
            // A double that is off by less than floats can tell must not be rounded twice.
            const double off = std::nextafter(double{value}, 0.0);
            const bool overflows = cast_elements(1, reinterpret_cast<const std::byte*>(&value), DType::f32,
                                                 reinterpret_cast<std::byte*>(&code), type.dtype);
            cast_elements(1, reinterpret_cast<const std::byte*>(&off), DType::f64,
                          reinterpret_cast<std::byte*>(&from_double), type.dtype);
            CAPTURE(value);
            REQUIRE(unsigned{code} == (nearest | (std::signbit(value) ? 0x80u : 0)));
            REQUIRE((from_double & 0x7fu) == nearest_fp8(type, std::fabs(off)));
            REQUIRE(overflows == (nearest > type.top));
        }
    }
}

TEST_CASE("infinities do not fit E4M3, which has none, and NaNs fit both types") {
    const auto overflows = [](auto value, DType from, DType to) {
        std::uint8_t out = 0;
        const bool found =
            cast_elements(1, reinterpret_cast<const std::byte*>(&value), from, reinterpret_cast<std::byte*>(&out), to);
        return std::pair{found, unsigned{out}};
    };
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    CHECK(overflows(-inf, DType::f32, DType::f8_e5m2) == std::pair{false, 0xfcu});
    CHECK(overflows(-inf, DType::f32, DType::f8_e4m3) == std::pair{true, 0xffu});
    CHECK(overflows(std::uint8_t{0x7c}, DType::f8_e5m2, DType::f8_e4m3).first);
    CHECK(overflows(std::uint8_t{0x70}, DType::f8_e5m2, DType::f8_e4m3).first);  // 8192
    CHECK(overflows(1e300, DType::f64, DType::f8_e5m2) == std::pair{true, 0x7cu});
    for (const DType fp8 : {DType::f8_e4m3, DType::f8_e5m2}) {
        CHECK_FALSE(overflows(nan, DType::f32, fp8).first);
        CHECK_FALSE(overflows(std::uint16_t{0xffc1}, DType::bf16, fp8).first);
    }
}
