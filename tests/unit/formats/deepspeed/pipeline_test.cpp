// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/pipeline.hpp"

#include <doctest/doctest.h>

#include <map>
#include <vector>

namespace tpx::formats::deepspeed {
namespace {

using Parts = std::vector<int>;

/// Layers by number, whose weights are 1; blocks are alike.
std::map<int, PipelineLayer> layers(int first_block, int blocks) {
    std::map<int, PipelineLayer> all;
    if (first_block > 0) all[first_block - 1] = {40, {}};
    for (int k = 0; k < blocks; ++k) all[first_block + k] = {10, {".mlp.weight[2, 5]"}};
    all[first_block + blocks + 1] = {1, {".norm.weight[1]"}};
    return all;
}

}  // namespace

TEST_CASE("layers are balanced as DeepSpeed balances them") {
    const auto parts = [](std::vector<Index> weights, int count) { return balanced_parts(weights, count); };
    // Results of deepspeed.runtime.utils.partition_balanced in 0.19.8.
    CHECK(parts({0, 0, 1, 1, 1, 0, 0}, 2) == Parts{0, 4, 7});
    CHECK(parts({0, 1, 1, 1, 1, 0}, 4) == Parts{0, 2, 3, 4, 6});
    CHECK(parts({5, 1, 1, 1, 1, 1, 3}, 3) == Parts{0, 1, 5, 7});
    CHECK(parts({9, 2, 2, 2, 2, 2, 2, 9}, 3) == Parts{0, 2, 7, 8});
    CHECK(parts({1, 2}, 4) == Parts{0, 1, 2, 2, 2});
    CHECK(parts({3, 1, 4, 1, 5, 9, 2, 6}, 4) == Parts{0, 3, 5, 6, 8});
}

TEST_CASE("the rule that made the old stages also makes the new ones") {
    const auto all = layers(2, 3);
    const std::map<int, int> by_blocks{{1, 0}, {2, 0}, {3, 0}, {4, 1}, {6, 1}};
    const auto rule = find_stage_rule(all, by_blocks, 2);
    REQUIRE(rule);
    CHECK(rule->name() == "equal numbers of transformer blocks");
    CHECK(rule->stages(all, 1) == std::map<int, int>{{1, 0}, {2, 0}, {3, 0}, {4, 0}, {6, 0}});
    const std::map<int, int> uniform{{1, 0}, {2, 0}, {3, 1}, {4, 1}, {6, 2}};
    const auto other = find_stage_rule(all, uniform, 3);
    REQUIRE(other);
    CHECK(other->stages(all, 3) == uniform);
    const std::map<int, int> by_hand{{1, 0}, {2, 1}, {3, 1}, {4, 1}, {6, 1}};
    CHECK(!find_stage_rule(all, by_hand, 3));
    CHECK(!find_stage_rule({}, {}, 1));
}

TEST_CASE("only valid layer numbers are read from names") {
    CHECK(layer_of("4.mlp.weight") == 4);
    CHECK(!layer_of("4"));
    CHECK(!layer_of("-1.weight"));
    CHECK(!layer_of("99999999999.weight"));
    CHECK(!layer_of("5000.weight"));
    CHECK(!layer_of("tied_modules.embed.weight"));
    CHECK(is_tied("tied_modules.embed.weight"));
    CHECK(blocks_of(layers(2, 3)) == Parts{2, 3, 4});
}

}  // namespace tpx::formats::deepspeed
