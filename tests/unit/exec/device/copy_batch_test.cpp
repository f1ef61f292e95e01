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
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

using namespace tpx;

namespace {

Shape any_sizes(Random& random) {
    Shape sizes;
    for (std::uint64_t k = random() % 6; k > 0; --k) sizes.push_back(pick(random, 9));
    if (random() % 4 == 0) sizes = {pick(random, 100), pick(random, 100)};
    return sizes;
}

std::vector<std::byte> any_bytes(Random& random, Index count) {
    std::vector<std::byte> bytes(std::size_t(count) + 64);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    return bytes;
}

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

TEST_CASE("strided copies on a device agree with those of the engine") {
    Random random{1};
    for (int round = 0; round < 3000; ++round) {
        const DType dtype = std::array{DType::u8, DType::bf16, DType::f32, DType::i64, DType::c128}[random() % 5];
        const int itemsize = tpx::itemsize(dtype);
        CopyBatch batch;
        std::vector<std::vector<std::byte>> sources, expected, targets;
        for (std::uint64_t k = 1 + random() % 4; k > 0; --k) {
            const Shape sizes = any_sizes(random);
            Index read = 0, written = 0;
            const Strides from = random_strides(random, sizes, itemsize, read);
            const Strides to = random_strides(random, sizes, itemsize, written);
            // The memory of vectors is aligned to 16 bytes, unlike some state.
            const Index skipped = pick(random, 16 / itemsize) * itemsize;
            sources.push_back(any_bytes(random, read));
            expected.push_back(any_bytes(random, written));
            targets.push_back(expected.back());
            copy_elements(sizes, &sources.back()[std::size_t(skipped)], from, expected.back().data(), to, itemsize);
            batch.add(sizes, &sources.back()[std::size_t(skipped)], from, dtype, targets.back().data(), to, dtype);
        }
        run_on_host(batch);
        REQUIRE(targets == expected);
    }
}

TEST_CASE("strided casts on a device agree with those of the engine") {
    Random random{2};
    const std::array types{DType::f32, DType::bf16, DType::f16};
    for (int round = 0; round < 3000; ++round) {
        const DType from = types[random() % 3], to = types[random() % 3];
        const Shape sizes = any_sizes(random);
        Index read = 0, written = 0;
        const Strides source_strides = random_strides(random, sizes, itemsize(from), read);
        const Strides target_strides = random_strides(random, sizes, itemsize(to), written);
        const std::vector<std::byte> source = any_bytes(random, read);
        std::vector<std::byte> expected = any_bytes(random, written), target = expected;
        cast_elements(sizes, source.data(), source_strides, from, expected.data(), target_strides, to);
        CopyBatch batch;
        batch.add(sizes, source.data(), source_strides, from, target.data(), target_strides, to);
        run_on_host(batch);
        CAPTURE(to_string(sizes));
        REQUIRE(target == expected);
    }
}

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

TEST_CASE("items are as wide as alignment and strides allow") {
    alignas(16) std::byte memory[64];
    const auto unit = [&](const Shape& sizes, Index skip, const Strides& from, DType dtype, DType to = DType::u8) {
        CopyBatch batch;
        Strides target(sizes.size());
        Index step = itemsize(to == DType::u8 ? dtype : to);
        for (int k = sizes.size() - 1; k >= 0; --k) target[k] = std::exchange(step, step * sizes[k]);
        batch.add(sizes, memory + skip, from, dtype, memory, target, to == DType::u8 ? dtype : to);
        return int((to == DType::u8 ? batch.plain() : batch.casts()).copies.at(0).unit);
    };
    CHECK(unit({8, 64}, 0, {256, 2}, DType::bf16) == 16);  // half of the columns of a matrix
    CHECK(unit({8, 64}, 8, {256, 2}, DType::bf16) == 8);
    CHECK(unit({8, 64}, 0, {260, 2}, DType::bf16) == 4);
    CHECK(unit({8, 63}, 0, {256, 2}, DType::bf16) == 2);
    CHECK(unit({8, 64}, 0, {2, 16}, DType::bf16) == 2);  // a transpose
    CHECK(unit({48}, 0, {1}, DType::f8_e4m3) == 16);
    CHECK(unit({8, 64}, 0, {512, 4}, DType::f32, DType::bf16) == 4);
    CHECK(unit({8, 64}, 4, {512, 4}, DType::f32, DType::bf16) == 1);
    CHECK(unit({8, 64}, 0, {128, 1}, DType::f8_e4m3, DType::f32) == 4);
    CHECK(unit({8, 64}, 0, {256, 2}, DType::bf16, DType::f16) == 8);
}

TEST_CASE("division by multiplication is exact") {
    Random random{3};
    for (int round = 0; round < 20000; ++round) {
        const Index by = 1 + pick(random, Index{1} << (1 + random() % 30));
        CopyBatch batch;
        batch.add({by, 2}, nullptr, {3 * by, 2}, DType::u8, nullptr, {3 * by, 1}, DType::u8);
        const Divisor divisor = by == 1 ? Divisor{} : batch.plain().copies.at(0).axis[0].count;
        const auto limit = std::int64_t{StridedCopy::max_items};
        for (const std::int64_t near : {std::int64_t{0}, std::int64_t(pick(random, limit)), limit / by * by, limit})
            for (std::int64_t value = std::max<std::int64_t>(0, near - 1); value <= std::min(limit, near + 1); ++value)
                REQUIRE(std::int64_t(divisor.quotient(std::uint32_t(value))) == value / by);
    }
}

TEST_CASE("a copy with too many items for one pass is split") {
    CopyBatch batch;
    const Index rows = 3, columns = (Index{1} << 33) + 5;
    batch.add({rows, columns}, nullptr, {2 * columns, 1}, DType::u8, nullptr, {columns, 1}, DType::u8);
    std::uint64_t bytes = 0;
    std::uint32_t tiles = 0;
    for (const StridedCopy& copy : batch.plain().copies) {
        CHECK(copy.first_tile == tiles);
        CHECK(copy.items <= StridedCopy::max_items);
        tiles += (copy.items + StridedCopy::tile_items - 1) / StridedCopy::tile_items;
        bytes += std::uint64_t{copy.items} * copy.unit;
        // The offsets of the first and the last item follow from the bytes before them.
        const auto at = copying::offsets_of(copy, copy.items - 1);
        CHECK(reinterpret_cast<std::uintptr_t>(copy.target) + std::uintptr_t(at.target) <
              std::uintptr_t(rows * columns));
    }
    CHECK(batch.plain().tiles == tiles);
    CHECK(bytes == std::uint64_t(rows * columns));
    CHECK(batch.bytes() == bytes);
}

TEST_CASE("dtypes that a device cannot convert are reported") {
    CHECK(CopyBatch::supports(DType::i64, DType::i64));
    CHECK_FALSE(CopyBatch::supports(DType::i64, DType::f32));
    CHECK_FALSE(CopyBatch::supports(DType::f4, DType::f4));
    CopyBatch batch;
    CHECK_THROWS_WITH(batch.add({1}, nullptr, {8}, DType::f64, nullptr, {4}, DType::f32),
                      "a GPU cannot cast f64 to f32");
}
