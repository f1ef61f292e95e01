// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/copy_elements.hpp"

#include "lib/core/error.hpp"
#include "tests/support/casts.hpp"
#include "tests/support/random_strides.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace tpx;

namespace {

void copy_naively(const Shape& sizes, const std::byte* source, const Strides& source_strides, std::byte* target,
                  const Strides& target_strides, int itemsize) {
    for (Index i = 0; i < volume(sizes); ++i) {
        Index rest = i;
        const std::byte* from = source;
        std::byte* to = target;
        for (int k = sizes.size() - 1; k >= 0; --k) {
            from += rest % sizes[k] * source_strides[k];
            to += rest % sizes[k] * target_strides[k];
            rest /= sizes[k];
        }
        std::memcpy(to, from, std::size_t(itemsize));
    }
}

// The 16-bit float nearest to `value` >= 0, ties to even, found by bisection over all of them.
std::uint16_t nearest(double value, int mantissa) {
    const auto top = static_cast<std::uint16_t>(((1 << (15 - mantissa)) - 1) << mantissa);
    std::uint16_t low = 0, high = top;
    while (high - low > 1) {
        const auto middle = static_cast<std::uint16_t>((low + high) / 2);
        (test::value_of(middle, mantissa) <= value ? low : high) = middle;
    }
    // Infinity takes the place of the next finite value.
    const double below = test::value_of(low, mantissa);
    const double above = high == top ? 2 * below - test::value_of(low - 1, mantissa) : test::value_of(high, mantissa);
    if (value - below == above - value) return low & 1 ? high : low;
    return value - below < above - value ? low : high;
}

}  // namespace

TEST_CASE("copies agree with one element at a time") {
    Random random{1};
    for (int round = 0; round < 2000; ++round) {
        Shape sizes;
        for (std::uint64_t k = random() % 6; k > 0; --k) sizes.push_back(pick(random, 9));
        if (random() % 8 == 0) sizes = {pick(random, 100), pick(random, 100)};
        const int itemsize = 1 << random() % 5;
        Index source_bytes = 0, target_bytes = 0;
        const Strides from = random_strides(random, sizes, itemsize, source_bytes);
        const Strides to = random_strides(random, sizes, itemsize, target_bytes);
        std::vector<std::byte> source(std::size_t(source_bytes) + 64);
        for (std::byte& byte : source) byte = static_cast<std::byte>(random());
        std::vector<std::byte> expected(std::size_t(target_bytes) + 64), target(expected);
        copy_naively(sizes, source.data(), from, expected.data(), to, itemsize);
        copy_elements(sizes, source.data(), from, target.data(), to, itemsize);
        CAPTURE(to_string(sizes));
        CAPTURE(to_string(from));
        CAPTURE(to_string(to));
        REQUIRE(target == expected);
    }
}

TEST_CASE("a cast to the same type copies any type") {
    const std::vector<std::int64_t> values = {1, -2, 3};
    CHECK(test::cast<std::int64_t, std::int64_t>(values, DType::i64, DType::i64) == values);
}

TEST_CASE("halves and bfloats widen to their value") {
    std::vector<std::uint16_t> all(65536);
    for (std::size_t k = 0; k < all.size(); ++k) all[k] = static_cast<std::uint16_t>(k);
    for (const auto& [dtype, mantissa] : {std::pair{DType::f16, 10}, {DType::bf16, 7}}) {
        const auto floats = test::cast<std::uint16_t, float>(all, dtype, DType::f32);
        const auto doubles = test::cast<std::uint16_t, double>(all, dtype, DType::f64);
        const auto back = test::cast<float, std::uint16_t>(floats, DType::f32, dtype);
        for (std::size_t k = 0; k < all.size(); ++k) {
            const double value = test::value_of(all[k], mantissa);
            CAPTURE(k);
            if (std::isnan(value)) {
                REQUIRE(std::isnan(floats[k]));
                REQUIRE(std::isnan(doubles[k]));
                REQUIRE(std::isnan(test::value_of(back[k], mantissa)));
            } else {
                REQUIRE(double{floats[k]} == value);
                REQUIRE(doubles[k] == value);
                REQUIRE(back[k] == all[k]);
            }
        }
    }
}

TEST_CASE("narrowing rounds to the nearest, ties to even, once") {
    Random random{2};
    for (const auto& [dtype, mantissa] : {std::pair{DType::f16, 10}, {DType::bf16, 7}}) {
        std::vector<double> values = {0,       65504, 65519.999, 65520,  65536, 3.4e38,
                                      3.39e38, 1e39,  1e300,     1e-300, 5e-8,  0x1p-25};
        for (int k = 0; k < 30000; ++k) {
            const auto base = static_cast<std::uint16_t>(random() % (dtype == DType::f16 ? 0x7bff : 0x7f7f));
            const double low = test::value_of(base, mantissa), high = test::value_of(std::uint16_t(base + 1), mantissa);
            const double middle = low + (high - low) / 2;
            values.push_back(middle);
            values.push_back(std::nextafter(middle, 0));
            values.push_back(std::nextafter(middle, high));
            values.push_back(low + (high - low) * double(random() % 1000) / 1000);
        }
        std::vector<float> floats;
        for (double value : values) floats.push_back(static_cast<float>(value));
        const auto from_double = test::cast<double, std::uint16_t>(values, DType::f64, dtype);
        const auto from_float = test::cast<float, std::uint16_t>(floats, DType::f32, dtype);
        for (std::size_t k = 0; k < values.size(); ++k) {
            CAPTURE(values[k]);
            REQUIRE(from_double[k] == nearest(values[k], mantissa));
            if (std::isfinite(floats[k])) REQUIRE(from_float[k] == nearest(double{floats[k]}, mantissa));
        }
    }
}

TEST_CASE("infinities, signs and NaNs survive every cast") {
    const double inf = std::numeric_limits<double>::infinity();
    const std::vector<double> values = {inf, -inf, -0.0, std::numeric_limits<double>::quiet_NaN(), -1.5};
    for (DType narrow : {DType::f16, DType::bf16}) {
        const auto bits = test::cast<double, std::uint16_t>(values, DType::f64, narrow);
        const auto back = test::cast<std::uint16_t, double>(bits, narrow, DType::f64);
        CHECK(back[0] == inf);
        CHECK(back[1] == -inf);
        CHECK(std::signbit(back[2]));
        CHECK(std::isnan(back[3]));
        CHECK(back[4] == -1.5);
    }
    // A signalling NaN whose payload does not fit must not become an infinity.
    const std::vector<float> signalling = {std::bit_cast<float>(std::uint32_t{0x7f800001})};
    CHECK(std::isnan(test::cast<std::uint16_t, float>(
        test::cast<float, std::uint16_t>(signalling, DType::f32, DType::f16), DType::f16, DType::f32)[0]));
    CHECK(std::isnan(test::cast<std::uint16_t, float>(
        test::cast<float, std::uint16_t>(signalling, DType::f32, DType::bf16), DType::bf16, DType::f32)[0]));
}

TEST_CASE("a cast reports if a finite value becomes infinite, and only then") {
    const auto overflows = []<class From>(From value, DType from, DType to) {
        std::uint64_t out = 0;
        return cast_elements({}, reinterpret_cast<const std::byte*>(&value), {}, from,
                             reinterpret_cast<std::byte*>(&out), {}, to);
    };
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    CHECK_FALSE(overflows(65519.0f, DType::f32, DType::f16));  // rounds to 65504, the largest
    CHECK(overflows(65520.0f, DType::f32, DType::f16));
    CHECK(overflows(-7e4f, DType::f32, DType::f16));
    CHECK(overflows(7e4, DType::f64, DType::f16));
    CHECK(overflows(std::uint16_t{0x4780}, DType::bf16, DType::f16));  // 65536
    // The largest bf16 is 0x7f7f0000 as a float; values nearer to the next power of two are rounded to it.
    CHECK_FALSE(overflows(std::bit_cast<float>(0x7f7f7fff), DType::f32, DType::bf16));
    CHECK(overflows(std::bit_cast<float>(0x7f7f8000), DType::f32, DType::bf16));
    CHECK(overflows(std::numeric_limits<float>::max(), DType::f32, DType::bf16));
    CHECK(overflows(1e39, DType::f64, DType::f32));
    CHECK_FALSE(overflows(1e38, DType::f64, DType::f32));
    for (DType narrow : {DType::f16, DType::bf16, DType::f64})
        for (float value : {inf, -inf, nan, 0.0f}) CHECK_FALSE(overflows(value, DType::f32, narrow));
    std::vector<float> row(1000, 1.0f);
    row[998] = 1e6f;
    std::vector<std::uint16_t> out(row.size());
    const auto* bytes = reinterpret_cast<const std::byte*>(row.data());
    auto* to = reinterpret_cast<std::byte*>(out.data());
    CHECK(cast_elements({1000}, bytes, {4}, DType::f32, to, {2}, DType::f16));
    CHECK(cast_elements({10, 100}, bytes, {400, 4}, DType::f32, to, {2, 20}, DType::f16));
    CHECK_FALSE(cast_elements({998}, bytes, {4}, DType::f32, to, {2}, DType::f16));
}

TEST_CASE("strided casts agree with dense ones") {
    const std::vector<float> values = {1, 2, 3, 4, 5, 6};
    std::vector<double> out(6);
    cast_elements(Shape{2, 3}, reinterpret_cast<const std::byte*>(values.data()), {12, 4}, DType::f32,
                  reinterpret_cast<std::byte*>(out.data()), {8, 16}, DType::f64);
    CHECK(out == std::vector<double>{1, 4, 2, 5, 3, 6});
}

TEST_CASE("unsupported casts are refused with the names of both dtypes") {
    CHECK_FALSE(can_cast(DType::i64, DType::bf16));
    CHECK_FALSE(can_cast(DType::f4, DType::f4));
    const std::vector<std::int64_t> values = {1};
    using Bits = std::uint16_t;
    CHECK_THROWS_WITH_AS((test::cast<std::int64_t, Bits>(values, DType::i64, DType::bf16)), "cannot cast i64 to bf16",
                         Error);
}
