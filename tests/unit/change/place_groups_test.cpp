// SPDX-License-Identifier: Apache-2.0
#include "lib/change/place_groups.hpp"

#include "formats/files/plan/plan_tables.hpp"
#include "lib/change/group_bound.hpp"
#include "lib/change/relocation.hpp"
#include "lib/change/state_locations.hpp"
#include "lib/check/check_plan.hpp"
#include "lib/core/error.hpp"
#include "tests/unit/change/random_parcels.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

using namespace tpx;
using namespace tpx::testing;

namespace {

/// A random change whose new ranks make groups of `group`.
Instance random_groups(RandomInstances& random, int group, const Extent& extent) {
    Instance made = random(extent);
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, bool>, Parcel> sums;
    for (const Parcel& parcel : made.parcels.parcels) {
        const auto [at, fresh] = sums.try_emplace({parcel.holders, parcel.needers, parcel.role, parcel.recut}, parcel);
        if (!fresh) at->second.bytes += parcel.bytes;
    }
    made.parcels.parcels.clear();
    for (const auto& [key, parcel] : sums) made.parcels.parcels.push_back(parcel);
    made.parcels.new_ranks = (made.parcels.new_ranks + group - 1) / group * group;
    return made;
}

/// The least crossing bytes of all placements of whole groups on the hosts to which blocks can be assigned.
std::uint64_t least_crossing(const Instance& made, const Placement& start) {
    const HostChoice choice = hosts_for_blocks(made.hosts, start.blocks);
    std::vector<int> room;
    for (std::uint32_t host : choice.hosts) room.push_back(free_devices(made.hosts[host]) / start.group);
    Placement placement = start;
    std::uint64_t least = ~std::uint64_t{0};
    const std::vector<std::int32_t> firsts = first_devices(made.hosts);
    const std::function<void(std::int32_t)> go = [&](std::int32_t rank) {
        if (rank == made.parcels.new_ranks)
            return void(least =
                            std::min(least, crossing_bytes(made.parcels, made.hosts, made.rank_locations, placement)));
        for (std::size_t c = 0; c < room.size(); ++c) {
            if (room[c] == 0) continue;
            --room[c];
            // The choice of devices does not matter here.
            for (int i = 0; i < start.group; ++i) placement.devices[rank + i] = firsts[choice.hosts[c]];
            go(rank + start.group);
            ++room[c];
        }
    };
    go(0);
    return least;
}

std::string fault(const Instance& made, StateMedium state, const Placement& placement) {
    Change change;
    change.state = state;
    change.hosts = made.hosts;
    change.old_ranks = made.rank_locations;
    change.placement = placement;
    change.relocation = relocate(made.parcels, made.hosts, made.rank_locations, placement, state, true);
    change.parcels = made.parcels;
    PlanTables tables;
    tables.to = fmt::format("tp={},dp={}", placement.group, made.parcels.new_ranks / placement.group);
    tables.hosts = formats::to_tables(change, nullptr);
    return check_plan(tables).fault;
}

}  // namespace

TEST_CASE("placements of whole groups send the fewest bytes, between a valid bound and the bytes of blocks") {
    RandomInstances random{41};
    int done = 0, better = 0, certified = 0, least_by_improving = 0;
    for (int round = 0; round < 2500; ++round) {
        CAPTURE(round);
        const int group = random.number(1, 3);
        const Instance made = random_groups(random, group,
                                            {.hosts = 4,
                                             .gpus = 6,
                                             .ranks = 6 * group,
                                             .parcels = 12,
                                             .bytes = 1000,
                                             .lost = round % 4 == 0,
                                             .devices = round % 4 == 1});
        Placement start;
        try {
            start = place(made.parcels, made.hosts, made.rank_locations, false, group);
        } catch (const Error&) {
            continue;  // too many ranks in whole groups
        }
        const std::optional<GroupPlacement> found = place_groups(made.parcels, made.hosts, made.rank_locations, start);
        const HostChoice choice = hosts_for_blocks(made.hosts, start.blocks);
        int places = 0;
        for (std::uint32_t host : choice.hosts) places += free_devices(made.hosts[host]) / group;
        REQUIRE(found.has_value() == (places * group >= made.parcels.new_ranks));
        if (!found) continue;
        const Placement& placement = found->placement;
        const std::uint64_t least = least_crossing(made, start);
        REQUIRE(placement.crossing == crossing_bytes(made.parcels, made.hosts, made.rank_locations, placement));
        REQUIRE(placement.crossing == least);
        REQUIRE(found->is_least());
        REQUIRE(placement.group_bound <= least);
        if (split_groups(start.blocks, group).empty()) REQUIRE(least <= start.crossing);
        REQUIRE(fault(made, StateMedium::memory, placement) == "");
        // Without a search of all placements.
        const std::optional<GroupPlacement> quick =
            place_groups(made.parcels, made.hosts, made.rank_locations, start, 1);
        REQUIRE(quick->placement.crossing >= least);
        REQUIRE(quick->bound <= least);
        better += least < start.crossing;
        certified += placement.group_bound == least;
        least_by_improving += quick->placement.crossing == least;
        ++done;
    }
    MESSAGE(done << " instances: groups are better than blocks in " << better << ", the bound of prices is tight in "
                 << certified << ", the first placement is the best in " << least_by_improving);
    CHECK(done > 1000);
    CHECK(better > 200);
    CHECK(certified > done / 2);
    CHECK(certified < done);
}

TEST_CASE("a wrong placement of groups fails the check") {
    RandomInstances random{42};
    int done = 0;
    for (int round = 0; round < 800; ++round) {
        CAPTURE(round);
        const int group = random.number(1, 2);
        const Instance made = random_groups(
            random, group, {.hosts = 4, .gpus = 4, .ranks = 8, .parcels = 8, .bytes = 1000, .lost = false});
        Placement start;
        try {
            start = place(made.parcels, made.hosts, made.rank_locations, false, group);
        } catch (const Error&) {
            continue;
        }
        const std::optional<GroupPlacement> found = place_groups(made.parcels, made.hosts, made.rank_locations, start);
        if (!found || found->placement.crossing == 0) continue;
        REQUIRE(fault(made, StateMedium::memory, found->placement) == "");
        Placement wrong = found->placement;
        wrong.group_bound = wrong.crossing + 1;
        REQUIRE(fault(made, StateMedium::memory, wrong).find("group_bound: ") == 0);
        wrong = found->placement;
        wrong.group_prices[0] += 1;
        REQUIRE(fault(made, StateMedium::memory, wrong) != "");
        wrong = found->placement;
        wrong.host_prices[0] = 1;
        REQUIRE(fault(made, StateMedium::memory, wrong) != "");
        wrong = found->placement;
        wrong.group_prices.pop_back();
        REQUIRE(fault(made, StateMedium::memory, wrong).find("tp_groups: ") == 0);
        wrong = found->placement;
        wrong.placed_for = PlacementGoal::time;
        REQUIRE(fault(made, StateMedium::memory, wrong) != "");
        wrong = found->placement;
        wrong.blocks[0].price = 1;
        REQUIRE(fault(made, StateMedium::memory, wrong).find("block 0: not of whole TP groups") == 0);
        ++done;
    }
    CHECK(done > 150);
}

TEST_CASE("replicas of groups share a host") {
    // Two layers with two replicas each: blocks put one replica of both layers on each host; groups put both replicas
    // of a layer on the host that holds it.
    Instance made;
    made.hosts = uniform_hosts(2, 2);
    made.rank_locations = {{0, 0}, {1, 2}};
    Parcels& parcels = made.parcels;
    parcels = {.old_ranks = 2, .new_ranks = 4, .roles = {Role::weight}, .tensors = {"w"}};
    for (std::int32_t layer : {0, 1}) {
        const std::vector<std::int32_t> holder{layer}, needers{layer, layer + 2};
        parcels.parcels.push_back({parcels.holders.add(holder), parcels.needers.add(needers), 0, 0, false, 100});
    }
    const Placement blocks = place(parcels, made.hosts, made.rank_locations, false);
    CHECK(blocks.crossing == 200);
    const std::optional<GroupPlacement> groups = place_groups(parcels, made.hosts, made.rank_locations, blocks);
    REQUIRE(groups);
    CHECK(groups->placement.crossing == 0);
    CHECK(groups->bound == 0);
    CHECK(groups->placement.blocks.size() == 4);
    CHECK(hosts_of_devices(made.hosts, groups->placement.devices) == std::vector<std::int32_t>{0, 1, 0, 1});
    CHECK(groups->placement.devices[0] == 0);
}
