// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/device/copy_batch.hpp"

#include "lib/exec/copy_elements.hpp"
#include "tests/support/random_strides.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
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
