// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/difference.hpp"

#include "tests/mpi/scratch.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

using namespace tpx;

namespace {

using Files = std::vector<SourceFile>;

std::string bytes_of(const std::vector<float>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::vector<float> counting(std::size_t count) {
    std::vector<float> values(count);
    for (std::size_t k = 0; k < count; ++k) values[k] = static_cast<float>(k);
    return values;
}

}  // namespace

TEST_CASE("the first difference is found whatever the layouts") {
    const mpi::Comm world = mpi::Comm::world();
    const test::Scratch scratch{world};
    const std::vector<Tensor> tensors = {{"v", DType::f32, {3}}, {"w", DType::f32, {20, 30, 40}}};
    // One in one piece, the other transposed and in two pieces.
    const auto values = counting(20 * 30 * 40);
    std::vector<float> transposed(values.size());
    const auto place = [](Index i, Index j, Index k) { return std::size_t((k * 30 + j) * 20 + i); };
    for (Index i = 0; i < 20; ++i)
        for (Index j = 0; j < 30; ++j)
            for (Index k = 0; k < 40; ++k) transposed[place(i, j, k)] = values[std::size_t((i * 30 + j) * 40 + k)];
    const std::vector<Piece> one = {{1, 0, 0, whole({20, 30, 40}), {1200, 40, 1}, -1}};
    const std::vector<Piece> two = {{1, 0, 0, {{0, 20}, {0, 30}, {0, 11}}, {1, 20, 600}, -1},
                                    {1, 0, 11 * 600 * 4, {{0, 20}, {0, 30}, {11, 40}}, {1, 20, 600}, -1}};
    scratch.write("one", bytes_of(values));
    scratch.write("two", bytes_of(transposed));
    const Files first = {{scratch / "one"}}, second = {{scratch / "two"}};
    ExecOptions options;
    options.memory = 256 << 10;
    CHECK_FALSE(first_difference(world, 1, {{tensors, one}, first}, {{tensors, two}, second}, options));

    transposed[place(17, 3, 39)] = -1;
    transposed[place(17, 4, 2)] = -2.5;
    transposed[place(19, 0, 0)] = -3;
    scratch.write("changed", bytes_of(transposed));
    const Files changed = {{scratch / "changed"}};
    const auto difference = first_difference(world, 1, {{tensors, one}, first}, {{tensors, two}, changed}, options);
    REQUIRE(difference);
    CHECK(difference->index == Tuple<Index>{17, 3, 39});
    CHECK(difference->first == "20559");
    CHECK(difference->second == "-1");
}

TEST_CASE("a scalar and a tensor without elements compare too") {
    const mpi::Comm world = mpi::Comm::world();
    const test::Scratch scratch{world};
    const std::vector<Tensor> tensors = {{"s", DType::i64, {}}, {"e", DType::f32, {0, 3}}};
    const std::vector<Piece> pieces = {{0, 0, 0, {}, {}, -1}};
    scratch.write("a", std::string("\1\0\0\0\0\0\0\0", 8));
    scratch.write("b", std::string("\2\0\0\0\0\0\0\0", 8));
    const Files a = {{scratch / "a"}}, b = {{scratch / "b"}};
    const auto difference = first_difference(world, 0, {{tensors, pieces}, a}, {{tensors, pieces}, b}, {});
    REQUIRE(difference);
    CHECK(difference->index.empty());
    CHECK(difference->first == "1");
    CHECK(difference->second == "2");
    CHECK_FALSE(first_difference(world, 1, {{tensors, pieces}, a}, {{tensors, pieces}, b}, {}));
}

TEST_CASE("a cast hides differences that it cannot represent") {
    const mpi::Comm world = mpi::Comm::world();
    const test::Scratch scratch{world};
    const std::vector<Tensor> wide = {{"w", DType::f32, {2}}}, narrow = {{"w", DType::bf16, {2}}};
    const std::vector<Piece> pieces = {{0, 0, 0, {{0, 2}}, {1}, -1}};
    scratch.write("wide", bytes_of({1.0000001f, 2.0f}));
    scratch.write("narrow", std::string("\x80\x3f\x00\x40", 4));
    const Files a = {{scratch / "wide"}}, b = {{scratch / "narrow"}};
    CHECK_FALSE(first_difference(world, 0, {{wide, pieces}, a}, {{narrow, pieces}, b}, {}, DType::bf16));
    CHECK_THROWS_WITH_AS(first_difference(world, 0, {{wide, pieces}, a}, {{narrow, pieces}, b}, {}),
                         "tensor 'w': dtypes differ: f32 and bf16", mpi::AgreedError);
}

TEST_CASE("elements are printed by their dtype") {
    const auto text = [](DType dtype, std::vector<unsigned char> bytes) {
        return element_text(dtype, reinterpret_cast<const std::byte*>(bytes.data()));
    };
    CHECK(text(DType::boolean, {1}) == "true");
    CHECK(text(DType::i8, {0xff}) == "-1");
    CHECK(text(DType::u16, {0x34, 0x12}) == "4660");
    CHECK(text(DType::bf16, {0xc0, 0x3f}) == "1.5");
    CHECK(text(DType::f16, {0x00, 0x3e}) == "1.5");
    CHECK(text(DType::f8_e4m3, {0xab}) == "-0.34375");
    CHECK(text(DType::f8_e5m2, {0x3d}) == "1.25");
    CHECK(text(DType::c64, {1, 2, 3, 4, 5, 6, 7, 8}) == "0x0807060504030201");
}
