// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/device/copy_batch.hpp"

#include "lib/exec/copy_elements.hpp"
#include "lib/exec/quantize.hpp"
#include "tests/support/random_strides.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

using namespace tpx;

namespace {

template <class To, class From>
std::vector<To> on_device(const std::vector<From>& values, DType from, DType to) {
    std::vector<To> out(values.size());
    CopyBatch batch;
    batch.add({Index(values.size())}, reinterpret_cast<const std::byte*>(values.data()), {sizeof(From)}, from,
              reinterpret_cast<std::byte*>(out.data()), {sizeof(To)}, to);
    run_on_host(batch);
    return out;
}

template <class To, class From>
std::vector<To> by_engine(const std::vector<From>& values, DType from, DType to) {
    std::vector<To> out(values.size());
    cast_elements(Index(values.size()), reinterpret_cast<const std::byte*>(values.data()), from,
                  reinterpret_cast<std::byte*>(out.data()), to);
    return out;
}

std::vector<std::uint16_t> all_halves() {
    std::vector<std::uint16_t> all(65536);
    for (std::size_t k = 0; k < all.size(); ++k) all[k] = static_cast<std::uint16_t>(k);
    return all;
}

// Each upper half of a float with the lower halves at which rounding changes, and random floats.
std::vector<std::uint32_t> many_floats() {
    Random random{5};
    std::vector<std::uint32_t> bits;
    for (std::uint32_t upper = 0; upper < 65536; ++upper)
        for (const std::uint32_t lower :
             {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu, std::uint32_t(random() & 0xffff)})
            bits.push_back(upper << 16 | lower);
    return bits;
}

// The value of an E4M3 code, by the definition.
float value_of_code(unsigned code) {
    const int exponent = static_cast<int>(code >> 3 & 15), fraction = static_cast<int>(code & 7);
    if ((code & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
    const float value = std::ldexp(static_cast<float>(fraction + (exponent ? 8 : 0)), std::max(exponent, 1) - 10);
    return code & 0x80 ? -value : value;
}

}  // namespace

TEST_CASE("every half and bfloat, and floats around each rounding, convert as in the engine") {
    const auto halves = all_halves();
    const auto floats = many_floats();
    for (const DType fp8 : {DType::f8_e4m3, DType::f8_e5m2}) {
        CHECK(on_device<std::uint8_t>(floats, DType::f32, fp8) == by_engine<std::uint8_t>(floats, DType::f32, fp8));
        for (const DType half : {DType::f16, DType::bf16})
            CHECK(on_device<std::uint8_t>(halves, half, fp8) == by_engine<std::uint8_t>(halves, half, fp8));
    }
    for (const DType narrow : {DType::f16, DType::bf16}) {
        const DType other = narrow == DType::f16 ? DType::bf16 : DType::f16;
        CHECK(on_device<std::uint32_t>(halves, narrow, DType::f32) ==
              by_engine<std::uint32_t>(halves, narrow, DType::f32));
        CHECK(on_device<std::uint16_t>(halves, narrow, other) == by_engine<std::uint16_t>(halves, narrow, other));
        CHECK(on_device<std::uint16_t>(floats, DType::f32, narrow) ==
              by_engine<std::uint16_t>(floats, DType::f32, narrow));
    }
}

TEST_CASE("every E4M3 code widens to its value and returns, and narrowing rounds to the nearest code") {
    std::vector<std::uint8_t> codes(256);
    for (std::size_t k = 0; k < codes.size(); ++k) codes[k] = static_cast<std::uint8_t>(k);
    const auto values = on_device<float>(codes, DType::f8_e4m3, DType::f32);
    for (std::size_t k = 0; k < codes.size(); ++k) {
        CAPTURE(k);
        if ((k & 0x7f) == 0x7f) {
            CHECK(std::isnan(values[k]));
        } else {
            CHECK(std::bit_cast<std::uint32_t>(values[k]) == std::bit_cast<std::uint32_t>(value_of_code(unsigned(k))));
        }
    }
    for (const DType wide : {DType::f16, DType::bf16}) {
        const auto halves = on_device<std::uint16_t>(codes, DType::f8_e4m3, wide);
        CHECK(halves == by_engine<std::uint16_t>(values, DType::f32, wide));
        CHECK(on_device<std::uint8_t>(halves, wide, DType::f8_e4m3) == codes);
    }
    const auto floats = many_floats();
    const auto narrowed = on_device<std::uint8_t>(floats, DType::f32, DType::f8_e4m3);
    for (std::size_t k = 0; k < floats.size(); ++k) {
        const auto value = std::bit_cast<float>(floats[k]);
        CAPTURE(value);
        // 464 is halfway between 448 and 480, which would be the next code; ties go to the even code.
        if (std::fabs(value) <= 448) {
            REQUIRE(narrowed[k] == e4m3_code(value));
        } else {
            const unsigned sign = floats[k] >> 24 & 0x80;
            REQUIRE(narrowed[k] == (std::fabs(value) <= 464 ? (sign | 0x7e) : (sign | 0x7f)));
        }
    }
}

namespace {

// The value of an E5M2 code, by the definition.
float value_of_e5m2(unsigned code) {
    const int exponent = static_cast<int>(code >> 2 & 31), fraction = static_cast<int>(code & 3);
    if (exponent == 31)
        return fraction != 0 ? std::numeric_limits<float>::quiet_NaN()
               : code & 0x80 ? -std::numeric_limits<float>::infinity()
                             : std::numeric_limits<float>::infinity();
    const float value = std::ldexp(static_cast<float>(fraction + (exponent ? 4 : 0)), std::max(exponent, 1) - 17);
    return code & 0x80 ? -value : value;
}

// The code of the E5M2 that is nearest to a value, ties to even; infinity beyond 57344 and half a step.
unsigned nearest_e5m2(float value) {
    const unsigned sign = std::signbit(value) ? 0x80 : 0;
    const double magnitude = std::fabs(static_cast<double>(value));
    unsigned best = 0;
    double least = magnitude;
    for (unsigned code = 1; code <= 0x7c; ++code) {
        const double candidate = code == 0x7c ? 65536.0 : static_cast<double>(value_of_e5m2(code));
        const double distance = std::fabs(candidate - magnitude);
        if (distance < least || (distance == least && code % 2 == 0)) {
            best = code;
            least = distance;
        }
    }
    return sign | (magnitude > 65536 ? 0x7c : best);
}

}  // namespace

TEST_CASE("every E5M2 code widens to its value and returns, and narrowing rounds to the nearest code or to infinity") {
    std::vector<std::uint8_t> codes(256);
    for (std::size_t k = 0; k < codes.size(); ++k) codes[k] = static_cast<std::uint8_t>(k);
    const auto values = on_device<float>(codes, DType::f8_e5m2, DType::f32);
    for (std::size_t k = 0; k < codes.size(); ++k) {
        CAPTURE(k);
        if (std::isnan(value_of_e5m2(unsigned(k))))
            CHECK(std::isnan(values[k]));
        else
            CHECK(std::bit_cast<std::uint32_t>(values[k]) == std::bit_cast<std::uint32_t>(value_of_e5m2(unsigned(k))));
    }
    for (const DType wide : {DType::f16, DType::bf16}) {
        const auto halves = on_device<std::uint16_t>(codes, DType::f8_e5m2, wide);
        CHECK(halves == by_engine<std::uint16_t>(values, DType::f32, wide));
        const auto back = on_device<std::uint8_t>(halves, wide, DType::f8_e5m2);
        for (std::size_t k = 0; k < codes.size(); ++k) {
            const bool is_nan = (codes[k] & 0x7f) > 0x7c;
            CHECK((is_nan ? (back[k] & 0x7f) > 0x7c : back[k] == codes[k]));
        }
    }
    const auto floats = many_floats();
    const auto narrowed = on_device<std::uint8_t>(floats, DType::f32, DType::f8_e5m2);
    for (std::size_t k = 0; k < floats.size(); k += 7) {
        const auto value = std::bit_cast<float>(floats[k]);
        CAPTURE(value);
        if (std::isnan(value))
            REQUIRE((narrowed[k] & 0x7f) > 0x7c);
        else
            REQUIRE(unsigned{narrowed[k]} == nearest_e5m2(value));
    }
}

TEST_CASE("values that FP8 cannot hold are reported as overflows, as are those of E5M2 that E4M3 cannot hold") {
    const auto overflows = [](std::vector<float> values, DType to) {
        std::uint32_t flag = 0;
        std::vector<std::uint8_t> out(values.size());
        CopyBatch batch{&flag};
        batch.add({Index(values.size())}, reinterpret_cast<const std::byte*>(values.data()), {4}, DType::f32,
                  reinterpret_cast<std::byte*>(out.data()), {1}, to);
        run_on_host(batch);
        return flag != 0;
    };
    CHECK_FALSE(overflows({448, -464, 0}, DType::f8_e4m3));
    CHECK(overflows({1, 464.5F}, DType::f8_e4m3));
    CHECK_FALSE(overflows({57344, -61439}, DType::f8_e5m2));
    CHECK(overflows({61440}, DType::f8_e5m2));
    CHECK_FALSE(overflows({std::numeric_limits<float>::infinity()}, DType::f8_e5m2));
    CHECK_FALSE(overflows({std::numeric_limits<float>::quiet_NaN()}, DType::f8_e4m3));
    CHECK(overflows({-std::numeric_limits<float>::infinity()}, DType::f8_e4m3));  // would become NaN
    std::uint32_t flag = 0;
    const std::array<std::uint8_t, 2> large{0x7b, 0x40};
    std::array<std::uint8_t, 2> out{};
    CopyBatch batch{&flag};
    batch.add({2}, reinterpret_cast<const std::byte*>(large.data()), {1}, DType::f8_e5m2,
              reinterpret_cast<std::byte*>(out.data()), {1}, DType::f8_e4m3);
    run_on_host(batch);
    CHECK(flag == 1);
    CHECK(out[1] == 0x40);
}
