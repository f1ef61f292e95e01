// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/grid.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>

#include <string>

namespace {

using namespace tpx;

/// The coordinates of all ranks, as returned by `of`, in one text.
template <class Of>
std::string digits(const Layout& layout, Of&& of) {
    std::string text;
    for (int rank = 0; rank < layout.ranks(); ++rank) text += std::to_string(of(rank));
    return text;
}

std::string digits(const Layout& layout, const Grid::Axis& axis) {
    return digits(layout, [&](int rank) { return axis.of(rank); });
}

std::string replicas(const Layout& layout, const Grid& grid) {
    return digits(layout, [&](int rank) { return grid.replica(rank); });
}

/// The position of every rank in the groups of megatron-core 0.16.1: RankGenerator(...).get_ranks(AXIS), for the dense
/// grid (ep=1) and for the grid of experts (cp=1), rank by rank.
struct Groups {
    const char* layout;
    struct {
        const char *tp, *pp, *dp, *dp_cp;
    } dense;
    struct {
        const char *tp, *pp, *ep, *dp;
    } experts;
};

constexpr Groups megatron[] = {
    {"tp=2,cp=2,ep=2,dp=2,pp=2,etp=1",
     {"0101010101010101", "0000000011111111", "0000111100001111", "0011223300112233"},
     {"0000000000000000", "0000000011111111", "0101010101010101", "0011223300112233"}},
    {"tp=4,ep=4,dp=4,pp=2,etp=1",
     {"01230123012301230123012301230123", "00000000000000001111111111111111", "00001111222233330000111122223333",
      "00001111222233330000111122223333"},
     {"00000000000000000000000000000000", "00000000000000001111111111111111", "01230123012301230123012301230123",
      "00001111222233330000111122223333"}},
    {"tp=2,ep=2,dp=2,pp=3,etp=2",
     {"010101010101", "000011112222", "001100110011", "001100110011"},
     {"010101010101", "000011112222", "001100110011", "000000000000"}},
    {"tp=2,cp=2,ep=4,dp=3,etp=1,order=tp-ep-dp-cp-pp",
     {"010101010101", "000000000000", "001122001122", "001122334455"},
     {"000000000000", "000000000000", "012301230123", "000011112222"}},
    {"tp=2,cp=2,ep=2,dp=2,pp=2,order=tp-cp-ep-pp-dp",
     {"0101010101010101", "0000111100001111", "0000000011111111", "0011001122332233"},
     {"0101010101010101", "0000111100001111", "0011001100110011", "0000000011111111"}},
    {"tp=3,cp=2,ep=2,dp=2,pp=2,order=cp-tp-dp-ep-pp",
     {"001122001122001122001122", "000000000000111111111111", "000000111111000000111111", "010101232323010101232323"},
     {"012012012012012012012012", "000000000000111111111111", "000000111111000000111111", "000111000111000111000111"}},
};

TEST_CASE("ranks have the coordinates of megatron-core, and experts a grid of their own") {
    for (const Groups& groups : megatron) {
        CAPTURE(groups.layout);
        const Layout layout = parse_layout(groups.layout);
        const Grid dense = dense_grid(layout);
        CHECK(digits(layout, dense.part) == groups.dense.tp);
        CHECK(digits(layout, dense.stage) == groups.dense.pp);
        CHECK(digits(layout, dense.dp) == groups.dense.dp);
        CHECK(replicas(layout, dense) == groups.dense.dp_cp);
        const Grid experts = expert_grid(layout);
        CHECK(digits(layout, experts.part) == groups.experts.tp);
        CHECK(digits(layout, experts.stage) == groups.experts.pp);
        CHECK(digits(layout, experts.block) == groups.experts.ep);
        CHECK(replicas(layout, experts) == groups.experts.dp);
    }
}

TEST_CASE("ranks of a dense grid have the coordinates that coordinates() returns") {
    const Layout layout = parse_layout("tp=3,cp=2,dp=4,pp=2,order=dp-pp-ep-tp-cp");
    const Grid grid = dense_grid(layout);
    for (int rank = 0; rank < layout.ranks(); ++rank) {
        const Coordinates at = coordinates(layout, rank);
        CHECK(grid.part.of(rank) == at.tp);
        CHECK(grid.stage.of(rank) == at.pp);
        CHECK(grid.dp.of(rank) == at.dp);
        CHECK(grid.replica(rank) == at.dp + 4 * at.cp);
    }
}

TEST_CASE("FSDP shards across the fsdp ranks of each replica, ZeRO across all replicas") {
    const Layout layout = parse_layout("tp=2,fsdp=2,hsdp=3,ep=2");
    const Grid grid = dense_grid(layout);
    CHECK(grid.shards(sharing_of(layout, true)) == 2);
    CHECK(grid.shard(2 * 5, Sharing::fsdp) == 1);
    CHECK(expert_grid(layout).shards(Sharing::fsdp) == 1);
    CHECK(sharing_of(parse_layout("dp=4,zero=1"), false) == Sharing::none);
    CHECK(sharing_of(parse_layout("dp=4,zero=2"), true) == Sharing::zero);
    CHECK(sharing_of(parse_layout("dp=4,zero=3"), false) == Sharing::zero);
    CHECK_THROWS_WITH_AS(expert_grid(parse_layout("fsdp=2,hsdp=2,ep=4")),
                         "layout: the number of ranks with the same experts, 1, is not a multiple of hsdp=2", Error);
}

TEST_CASE("the ranks of an owner are those whose coordinates match it") {
    for (const char* text :
         {"tp=2,cp=2,dp=4,pp=2,ep=2,fsdp=2", "tp=2,dp=4,pp=3,fsdp=2,order=tp-dp-cp-ep-pp",
          "cp=2,dp=3,zero=2,order=dp-cp-ep-tp-pp", "ep=2,fsdp=2,efsdp=2,dp=4", "tp=4,dp=2,ep=4,etp=1"}) {
        CAPTURE(text);
        const Layout layout = parse_layout(text);
        for (const Grid& grid : {dense_grid(layout), expert_grid(layout)}) {
            for (Sharing sharing : {Sharing::none, Sharing::fsdp, Sharing::zero}) {
                for (int stage = Owner::both_ends; stage < layout.pp; ++stage) {
                    for (int block = Owner::any; block < grid.block.size; ++block) {
                        for (int part = Owner::any; part < grid.part.size; ++part) {
                            for (int shard = Owner::any; shard < grid.shards(sharing); ++shard) {
                                const auto agrees = [](int wanted, int is) { return wanted < 0 || wanted == is; };
                                std::vector<std::int32_t> expected;
                                for (int rank = 0; rank < layout.ranks(); ++rank) {
                                    const int at = grid.stage.of(rank);
                                    const bool here =
                                        stage == Owner::both_ends ? at == 0 || at == layout.pp - 1 : agrees(stage, at);
                                    if (here && agrees(block, grid.block.of(rank)) &&
                                        agrees(part, grid.part.of(rank)) && agrees(shard, grid.shard(rank, sharing)))
                                        expected.push_back(rank);
                                }
                                CHECK(grid.ranks_of({stage, block, part, shard}, sharing) == expected);
                            }
                        }
                    }
                }
            }
        }
    }
}

}  // namespace
