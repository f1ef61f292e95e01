// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/state_check.hpp"

#include "tests/mpi/scratch.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <vector>

using namespace tpx;

namespace {

// The weights of masters 0, 1, ... as bf16: their upper halves, as all values are exact in bf16.
std::string rounded(const std::vector<float>& values) {
    std::string bytes;
    for (float value : values) {
        const auto bits = std::bit_cast<std::uint32_t>(value);
        bytes += static_cast<char>(bits >> 16 & 0xff);
        bytes += static_cast<char>(bits >> 24);
    }
    return bytes;
}

std::string bytes_of_state(const std::vector<float>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

}  // namespace

TEST_CASE("state is compared with weights whatever the layouts, in bounded memory") {
    const mpi::Comm world = mpi::Comm::world();
    const test::Scratch scratch{world};
    constexpr Index rows = 300, columns = 400;
    std::vector<float> masters;
    for (Index k = 0; k < rows * columns; ++k) masters.push_back(static_cast<float>(k % 128));
    std::vector<float> squares(masters);
    const auto at = [](Index i, Index j) { return static_cast<std::size_t>(i * columns + j); };
    const std::string weights = rounded(masters);
    masters[at(7, 3)] += 0.125F;  // still rounds to the weight: 65 + 1/8 is within half a step of bf16
    masters[at(17, 39)] += 1;
    masters[at(200, 1)] = -7;
    squares[at(299, 399)] = -1;
    squares[at(250, 0)] = std::nanf("");
    scratch.write("weights", weights);
    scratch.write("masters", bytes_of_state(masters));
    scratch.write("squares", bytes_of_state(squares));
    const std::vector<Tensor> tensors = {
        {"w", DType::bf16, {rows, columns}}, {"m", DType::f32, {rows, columns}}, {"s", DType::f32, {rows, columns}}};
    // The weights are split by columns into two pieces, the others by rows that match no slab.
    const std::vector<Piece> pieces = {{0, 0, 0, {{0, rows}, {0, 11}}, {columns, 1}, -1},
                                       {0, 0, 22, {{0, rows}, {11, columns}}, {columns, 1}, -1},
                                       {1, 1, 0, {{0, 41}, {0, columns}}, {columns, 1}, -1},
                                       {1, 1, 41 * columns * 4, {{41, rows}, {0, columns}}, {columns, 1}, -1},
                                       {2, 2, 0, whole({rows, columns}), {columns, 1}, -1}};
    const std::vector<SourceFile> files = {{scratch / "weights"}, {scratch / "masters"}, {scratch / "squares"}};
    const std::vector<StateCheck> checks = {{1, 0, false}, {2, {}, true}, {2, {}, false}};
    ExecOptions options;
    options.memory = 1 << 20;
    const auto facts = check_states(world, {tensors, pieces}, files, checks, options);
    REQUIRE(facts.size() == 3);
    CHECK(facts[0].elements == rows * columns);
    CHECK(facts[0].misses == 2);
    CHECK(facts[0].first == at(17, 39));
    CHECK(facts[0].value == facts[0].weight + 1);
    CHECK(facts[0].farthest == 7 + std::fmod(static_cast<double>(at(200, 1)), 128));
    CHECK(facts[0].largest == 127);
    CHECK(facts[1].negative == 1);
    CHECK(facts[1].not_finite == 1);
    CHECK(facts[1].first == at(250, 0));
    CHECK(std::isnan(facts[1].value));
    CHECK(facts[2].negative == 0);
    CHECK(facts[2].not_finite == 1);
    CHECK(facts[2].misses == 0);
}
