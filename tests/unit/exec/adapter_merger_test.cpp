// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/adapter_merger.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

using namespace tpx;

namespace {

/// A file of f32: `count` numbers of mixed size and sign, different for each `seed`.
std::vector<float> numbers(std::size_t count, int seed) {
    std::vector<float> made(count);
    for (std::size_t k = 0; k < count; ++k)
        made[k] = static_cast<float>(std::sin(static_cast<double>(k * 7 + 3) * seed)) / static_cast<float>(1 + k % 5);
    return made;
}

/// A base (file 0), B (file 1), A (file 2) and magnitudes (file 3) of a linear layer.
struct Layer {
    Layer(Index out_, Index in_, Index rank_) : out{out_}, in{in_}, rank{rank_} {
        for (const Index count : {out * in, out * rank, rank * in, out})
            files.push_back(numbers(static_cast<std::size_t>(count), static_cast<int>(files.size()) + 2));
    }

    MergedWeight weight() const {
        MergedWeight made;
        made.rows = out;
        made.columns = in;
        made.dtype = DType::f32;
        made.rank = rank;
        made.base = {0, 0, DType::f32};
        made.left = {{1, 0, DType::f32}, rank, 1};
        made.right = {{2, 0, DType::f32}, in, 1};
        made.scale = 0.75f;
        return made;
    }

    float merged(Index r, Index c) const {
        float sum = 0;
        for (Index k = 0; k < rank; ++k) sum = std::fma(files[1][r * rank + k], files[2][k * in + c], sum);
        volatile float delta = sum * 0.75f;  // rounded before it is added
        return files[0][r * in + c] + delta;
    }

    std::vector<float> read(const MergedWeight& weight, Index first, Index count, AdapterMerger& merger) const {
        std::vector<float> out_values(static_cast<std::size_t>(count));
        merger.read(
            weight, static_cast<std::uint64_t>(first) * sizeof(float), std::as_writable_bytes(std::span{out_values}),
            [&](std::uint32_t file, std::uint64_t offset, std::span<std::byte> into) {
                REQUIRE(offset + into.size() <= files[file].size() * sizeof(float));
                std::memcpy(into.data(), reinterpret_cast<const std::byte*>(files[file].data()) + offset, into.size());
            });
        return out_values;
    }

    Index out, in, rank;
    std::vector<std::vector<float>> files;
};

}  // namespace

TEST_CASE("merged values are sums in the order of the adapter's rank, wherever reading begins and ends") {
    const Layer layer{37, 2500, 5};
    const MergedWeight weight = layer.weight();
    AdapterMerger merger;
    for (const auto& [first, count] : {std::pair<Index, Index>{0, 37 * 2500}, {2499, 2}, {1234, 7000}, {92499, 1}}) {
        CAPTURE(first);
        const std::vector<float> found = layer.read(weight, first, count, merger);
        for (Index k = 0; k < count; ++k) REQUIRE(found[k] == layer.merged((first + k) / 2500, (first + k) % 2500));
    }
}

TEST_CASE("a part of a weight has the values of that part") {
    const Layer layer{8, 24, 3};
    MergedWeight part = layer.weight();  // rows 2 to 6, columns 8 to 20, stored in a separate file
    part.rows = 4;
    part.columns = 12;
    part.left.part.offset = 2 * 3 * sizeof(float);
    part.right.part.offset = 8 * sizeof(float);
    Layer stored = layer;
    stored.files[0].clear();
    for (Index r = 2; r < 6; ++r)
        for (Index c = 8; c < 20; ++c) stored.files[0].push_back(layer.files[0][r * 24 + c]);
    AdapterMerger merger;
    const std::vector<float> found = stored.read(part, 0, 48, merger);
    for (Index k = 0; k < 48; ++k) CHECK(found[k] == layer.merged(2 + k / 12, 8 + k % 12));
}

TEST_CASE("transposed weights add the transpose of the product") {
    const Layer layer{16, 16, 4};
    MergedWeight weight = layer.weight();
    weight.left = {{2, 0, DType::f32}, 1, 16};
    weight.right = {{1, 0, DType::f32}, 1, 4};
    AdapterMerger merger;
    const std::vector<float> found = layer.read(weight, 0, 256, merger);
    for (Index k = 0; k < 256; ++k) {
        const Index i = k / 16;
        const Index o = k % 16;
        volatile float delta = layer.merged(o, i) - layer.files[0][o * 16 + i];
        CHECK(found[k] == doctest::Approx(layer.files[0][k] + delta).epsilon(1e-5));
    }
}

TEST_CASE("factors of one expert are found among those of others") {
    const Layer layer{16, 24, 4};
    constexpr Index experts = 3;
    Layer stored = layer;
    stored.files[1].assign(16 * 4 * experts, -1.0f);
    for (Index o = 0; o < 16; ++o)
        for (Index k = 0; k < 4; ++k) stored.files[1][(o * 4 + k) * experts + 2] = layer.files[1][o * 4 + k];
    MergedWeight weight = layer.weight();
    weight.left = {{1, 2 * sizeof(float), DType::f32}, 4 * experts, experts};
    AdapterMerger merger;
    std::vector<float> found = stored.read(weight, 0, 384, merger);
    for (Index k = 0; k < 384; ++k) CHECK(found[k] == layer.merged(k / 24, k % 24));

    MergedWeight transposed = weight;
    transposed.rows = 24;
    transposed.columns = 16;
    transposed.left = {{2, 0, DType::f32}, 1, 24};
    transposed.right = {{1, 2 * sizeof(float), DType::f32}, experts, 4 * experts};
    std::ranges::fill(stored.files[0], 0.0f);
    AdapterMerger other;
    found = stored.read(transposed, 0, 384, other);
    for (Index k = 0; k < 384; ++k) {
        const float delta = layer.merged(k % 16, k / 16) - layer.files[0][(k % 16) * 24 + k / 16];
        CHECK(found[k] == doctest::Approx(delta).epsilon(1e-4));
    }
}

TEST_CASE("factors of one expert are read in few large blocks, within the memory limit") {
    const Layer layer{300, 8, 4};
    constexpr Index experts = 16;
    std::vector<float> b(300 * 4 * experts, -1.0f);
    for (Index k = 0; k < 300 * 4; ++k) b[k * experts + 3] = layer.files[1][k];
    Layer stored = layer;
    stored.files[1] = b;
    MergedWeight weight = layer.weight();
    weight.left = {{1, 3 * sizeof(float), DType::f32}, 4 * experts, experts};
    AdapterMerger merger;
    int reads = 0;
    std::vector<float> found(300 * 8);
    merger.read(weight, 0, std::as_writable_bytes(std::span{found}),
                [&](std::uint32_t file, std::uint64_t offset, std::span<std::byte> into) {
                    reads += file == 1 ? 1 : 0;
                    CHECK(into.size() <= merging_memory(weight));
                    REQUIRE(offset + into.size() <= stored.files[file].size() * sizeof(float));
                    std::memcpy(into.data(), reinterpret_cast<const std::byte*>(stored.files[file].data()) + offset,
                                into.size());
                });
    CHECK(reads == 1);
    for (Index k = 0; k < 300 * 8; ++k) REQUIRE(found[k] == layer.merged(k / 8, k % 8));
}

TEST_CASE("memory of a transposed left factor includes the rows of a run") {
    MergedWeight weight = Layer{16384, 4, 1}.weight();
    weight.left = {{2, 0, DType::f32}, 1, 16384};
    constexpr std::uint64_t run = 16384 * 4;  // its values, and bytes read of the base
    CHECK(merging_memory(weight) >= sizeof(float) * (2 * 16384 + 2 * run));
}

TEST_CASE("rows of DoRA have the norms in their magnitudes, whichever part of them is read") {
    const Layer layer{6, 40, 2};
    MergedWeight weight = layer.weight();
    weight.magnitudes = MergedWeight::Part{3, 0, DType::f32};
    AdapterMerger merger;
    const std::vector<float> all = layer.read(weight, 0, 240, merger);
    for (Index r = 0; r < 6; ++r) {
        double squares = 0;
        for (Index c = 0; c < 40; ++c) squares += double{all[r * 40 + c]} * all[r * 40 + c];
        CHECK(std::sqrt(squares) == doctest::Approx(std::abs(layer.files[3][r])).epsilon(1e-5));
    }
    AdapterMerger other;
    for (Index k = 230; k-- > 0;) CHECK(layer.read(weight, k, 1, other)[0] == all[k]);
}

TEST_CASE("a weight without factors is the base in another dtype") {
    const Layer layer{2, 8, 1};
    MergedWeight weight = layer.weight();
    weight.rank = 0;
    weight.dtype = DType::bf16;
    std::vector<std::byte> bytes(32);
    AdapterMerger{}.read(weight, 0, bytes, [&](std::uint32_t, std::uint64_t offset, std::span<std::byte> into) {
        std::memcpy(into.data(), reinterpret_cast<const std::byte*>(layer.files[0].data()) + offset, into.size());
    });
    for (std::size_t k = 0; k < 16; ++k) {
        std::uint32_t bits = 0;
        std::memcpy(reinterpret_cast<std::byte*>(&bits) + 2, &bytes[2 * k], 2);
        float value = 0;
        std::memcpy(&value, &bits, 4);
        CHECK(value == doctest::Approx(layer.files[0][k]).epsilon(0.01));
    }
}
