// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/virtual_nodes.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/shard_map.hpp"

#include <doctest/doctest.h>

#include <random>
#include <utility>

using namespace tpx;

TEST_CASE("ranks get virtual nodes and samples as evenly as whole numbers allow") {
    const Layout layout{.dp = 3, .vn = 8};
    CHECK(virtual_nodes_of(layout, 0) == Interval{0, 3});
    CHECK(virtual_nodes_of(layout, 1) == Interval{3, 6});
    CHECK(virtual_nodes_of(layout, 2) == Interval{6, 8});
    CHECK(samples_of({0, 3}, 8, 20) == Interval{0, 9});
    CHECK(samples_of({3, 6}, 8, 20) == Interval{9, 16});
    CHECK(samples_of({6, 8}, 8, 20) == Interval{16, 20});
    CHECK(virtual_nodes_of({.dp = 2}, 1).empty());
}

TEST_CASE("a layout can list the number of virtual nodes of each rank") {
    const Layout layout = parse_layout("dp=3,vn=[4,2,2]");
    CHECK(layout.vn == 8);
    CHECK(to_string(layout) == "dp=3,vn=[4,2,2]");
    CHECK(virtual_nodes_of(layout, 0) == Interval{0, 4});
    CHECK(virtual_nodes_of(layout, 1) == Interval{4, 6});
    CHECK(virtual_nodes_of(layout, 2) == Interval{6, 8});
    CHECK(parse_layout_toml("fsdp = 2\nvn = [1, 3]", "x") == parse_layout("fsdp=2,vn=[1,3]"));
    for (const auto& [text, refusal] :
         {std::pair{"dp=2,vn=[4,2,2]", "layout: vn lists the virtual nodes of 3 dp coordinates, dp = 2"},
          {"dp=2,vn=[4,0]", "layout: 'vn=0': must be a whole number from 1 to 16777216"},
          {"dp=2,vn=[]", "layout: vn: 0 virtual nodes; must be 1 to 16777216"},
          {"dp=2,vn=[16777216,1]", "layout: vn: 16777217 virtual nodes; must be 1 to 16777216"},
          {"dp=2,vn=[1,1", "layout: 'vn=[1,1': must be a list as in [9,8,8,7]"}})
        CHECK_THROWS_WITH_AS(parse_layout(text), refusal, Error);
}

TEST_CASE("every rank must run a virtual node, and every virtual node must have a sample") {
    CHECK_NOTHROW(check_virtual_nodes({.dp = 4}, 2));
    CHECK_NOTHROW(check_virtual_nodes({.dp = 4, .vn = 4}, 4));
    CHECK_THROWS_WITH_AS(check_virtual_nodes({.dp = 4, .vn = 3}, 0),
                         "layout: vn=3 virtual nodes cannot run on dp=4; use dp=3 or less", Error);
    CHECK_THROWS_WITH_AS(check_virtual_nodes({.dp = 2, .vn = 8}, 7),
                         "a global batch of 7 samples cannot be split over vn=8 virtual nodes", Error);
}

TEST_CASE("laws: ranks cover all virtual nodes and samples once; a virtual node's samples do not depend on dp") {
    std::mt19937 random{16};
    for (int round = 0; round < 500; ++round) {
        const int count = 1 + static_cast<int>(random() % 40);
        const Layout layout{.dp = 1 + static_cast<int>(random() % count), .vn = count};
        const Index batch = count + static_cast<Index>(random() % 1000);
        Index node = 0, sample = 0, most = 0, least = count;
        for (int dp = 0; dp < layout.dp; ++dp) {
            const Interval nodes = virtual_nodes_of(layout, dp);
            const Interval samples = samples_of(nodes, count, batch);
            REQUIRE(nodes.begin == node);
            REQUIRE(samples.begin == sample);
            most = std::max(most, nodes.size());
            least = std::min(least, nodes.size());
            for (node = nodes.begin; node < nodes.end; ++node) {
                const Interval own = samples_of({node, node + 1}, count, batch);
                REQUIRE(own == part({0, batch}, count, node));
                REQUIRE(own.begin == sample);
                sample = own.end;
            }
            REQUIRE(sample == samples.end);
        }
        REQUIRE(node == count);
        REQUIRE(sample == batch);
        REQUIRE(least >= 1);
        REQUIRE(most - least <= 1);
    }
}

TEST_CASE("law: the state of virtual nodes is split like the virtual nodes") {
    for (int count = 1; count <= 12; ++count) {
        for (int dp = 1; dp <= count; ++dp) {
            const Layout layout{.tp = 2, .dp = dp, .vn = count};
            const ShardMap map{layout, {}, {}};
            const auto shards = map.shards({.shape = {count, 5}, .layer = 0}, Sharing::virtual_nodes);
            REQUIRE(static_cast<int>(shards.size()) == dp);
            for (const Shard& shard : shards)
                for (std::int32_t rank : map.ranks(shard, Sharing::virtual_nodes))
                    CHECK(shard.box[0] == virtual_nodes_of(layout, coordinates(layout, rank).dp));
        }
    }
}

TEST_CASE("the virtual node of a state is parsed from its name") {
    CHECK(virtual_node_of("virtual_node_state.0.rng") == 0);
    CHECK(virtual_node_of("app.virtual_node_state.12.bn.running_mean") == 12);
    for (const char* name : {"virtual_node_state.3", "virtual_node_state.3.", "virtual_node_state.03.rng",
                             "virtual_node_state.-1.rng", "virtual_node_state.x.rng", "my_virtual_node_state.3.rng",
                             "virtual_node_state.99999999999.rng", "rng", "model.virtual_nodes.0.weight"})
        CHECK_MESSAGE(!virtual_node_of(name), name);
}

TEST_CASE("state of a virtual node is on the ranks that run it, in every layout") {
    std::mt19937 draw{7};
    for (int trial = 0; trial < 200; ++trial) {
        const auto up_to = [&](int most) { return std::uniform_int_distribution{1, most}(draw); };
        Layout layout{.tp = up_to(3), .pp = up_to(3), .dp = up_to(5), .cp = up_to(2)};
        layout.vn = layout.dp + up_to(9) - 1;
        if (up_to(2) == 1) layout.fsdp = layout.dp;
        if (up_to(2) == 1) {
            layout.vn_parts.assign(static_cast<std::size_t>(layout.dp), 1);
            for (int k = layout.dp; k < layout.vn; ++k)
                ++layout.vn_parts[static_cast<std::size_t>(up_to(layout.dp) - 1)];
        }
        const ShardMap map{layout, {}, std::vector<int>(1, 0)};
        for (int node = 0; node < layout.vn; ++node) {
            const TensorForm form{.shape = Shape(1, 5056), .replicated = true, .virtual_node = node};
            const Sharing sharing = stored_sharing(layout);
            const std::vector<Shard> shards = map.shards(form, sharing);
            REQUIRE(shards.size() == 1);
            std::vector<std::int32_t> expected;
            for (int rank = 0; rank < layout.ranks(); ++rank)
                if (virtual_nodes_of(layout, coordinates(layout, rank).dp).contains(Interval{node, node + 1}))
                    expected.push_back(rank);
            CHECK(map.ranks(shards[0], sharing) == expected);
        }
        const TensorForm beyond{.shape = Shape(1, 5056), .replicated = true, .virtual_node = layout.vn};
        CHECK_THROWS_AS(map.shards(beyond, Sharing::none), Error);
    }
}
