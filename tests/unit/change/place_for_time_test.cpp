// SPDX-License-Identifier: Apache-2.0
#include "lib/change/place_for_time.hpp"

#include "lib/change/change.hpp"
#include "lib/change/choose_devices.hpp"
#include "lib/core/error.hpp"
#include "tests/unit/change/random_parcels.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

using namespace tpx;
using namespace tpx::testing;

namespace {

double seconds_with(const Instance& made, StateMedium state, const Placement& placement) {
    ChangeOptions options{.state = state, .may_read = true, .in_rounds = false};
    options.placement = placement;
    return make_change(made.parcels, made.hosts, made.rank_locations, options).prediction.seconds();
}

/// Visits all placements of the blocks of `start` on the documented hosts, with devices in order.
void for_each_placement(const Instance& made, const Placement& start, const std::function<void(Placement)>& visit) {
    const auto is_spare = [&](std::uint32_t host) { return made.hosts[host].spare; };
    const std::vector<Block> cut = cut_blocks(made.hosts, made.parcels.new_ranks, start.group);
    const bool uses_spares = std::ranges::any_of(cut, is_spare, &Block::host);
    std::vector<bool> used(made.hosts.size());
    Placement placement = start;
    const std::function<void(std::size_t)> go = [&](std::size_t block) {
        if (block == placement.blocks.size()) {
            for (const Block& each : cut)
                if (uses_spares && !is_spare(each.host) && !used[each.host]) return;
            visit(placement);
            return;
        }
        for (std::uint32_t host = 0; host < used.size(); ++host) {
            Block& own = placement.blocks[block];
            if (used[host] || free_devices(made.hosts[host]) < own.end - own.begin) continue;
            if (is_spare(host) && !uses_spares) continue;
            used[host] = true;
            own.host = host;
            go(block + 1);
            used[host] = false;
        }
    };
    go(0);
}

/// A random change with different rates; with `devices`, devices have rates, so transfers inside hosts count, too.
Instance random_change(RandomInstances& random, const Extent& extent) {
    Instance made = random(extent);
    const bool has_links = random.chance(30);
    for (Host& host : made.hosts) {
        if (host.nic) host.nic = *host.nic * 1e9;
        if (host.disk_read) host.disk_read = *host.disk_read * 1e9;
        if (random.chance(30)) host.disk_write = random.number(1, 4) * 1e9;
        if (has_links) host.device_link = random.number(1, 40) * 1e8;
    }
    for (Parcel& parcel : made.parcels.parcels) parcel.bytes *= 1'000'000'000;
    return made;
}

/// A placement with changed hosts gets the devices that place_for_time() would choose.
Placement with_devices(const Instance& made, Placement placement) {
    placement.devices = choose_devices(made.parcels, made.hosts, made.rank_locations, placement.blocks);
    return placement;
}

}  // namespace

TEST_CASE("the placement for time is the fastest of all, and bounds hold") {
    RandomInstances random{31};
    int faster = 0, tight = 0, done = 0;
    for (int round = 0; round < 1500; ++round) {
        CAPTURE(round);
        const Instance made = random_change(random, {.hosts = 5, .ranks = 10, .parcels = 10, .lost = round % 2 == 0});
        const auto state = static_cast<StateMedium>(round % 2);  // state in memory or in stores
        const Placement start = place(made.parcels, made.hosts, made.rank_locations, false);
        const auto seconds_of = [&](const Placement& placement) { return seconds_with(made, state, placement); };
        FastPlacement found;
        try {
            found =
                place_for_time(made.parcels, made.hosts, made.rank_locations, StateMedium{state}, start, seconds_of);
        } catch (const Error& error) {
            continue;  // a lost host had the only copy
        }
        double least = seconds_of(start);
        REQUIRE(found.seconds_of_fewest_bytes == least);
        for_each_placement(made, start, [&](Placement placement) {
            least = std::min(least, seconds_of(with_devices(made, std::move(placement))));
        });
        REQUIRE(found.is_fastest);
        REQUIRE(found.seconds == doctest::Approx(least).epsilon(1e-9));
        REQUIRE(found.bound <= found.seconds);
        REQUIRE(seconds_of(found.placement) == found.seconds);
        REQUIRE(found.placement.crossing >= start.crossing);
        REQUIRE(found.placement.is_proven() == (found.placement.crossing == start.crossing));
        faster += found.seconds < found.seconds_of_fewest_bytes;
        // A search with few placements gives valid bounds, and a result that is never slower than the start.
        const FastPlacement quick =
            place_for_time(made.parcels, made.hosts, made.rank_locations, state, start, seconds_of, 2);
        REQUIRE(quick.seconds <= found.seconds_of_fewest_bytes);
        REQUIRE(quick.bound <= least * (1 + 1e-9));
        REQUIRE((!quick.is_fastest || quick.seconds == doctest::Approx(least).epsilon(1e-9)));
        tight += quick.is_fastest;
        ++done;
    }
    CHECK(done > 800);
    CHECK(faster > 50);
    CHECK(tight > done / 2);
}

TEST_CASE("a search that stops early comes close to the fastest placement") {
    RandomInstances random{32};
    int done = 0, missed = 0;
    double worst = 1;
    for (int round = 0; round < 150; ++round) {
        CAPTURE(round);
        const Instance made = random_change(random, {.hosts = 6, .gpus = 2, .ranks = 12, .parcels = 20, .lost = false});
        const Placement start = place(made.parcels, made.hosts, made.rank_locations, false);
        const auto seconds_of = [&](const Placement& p) { return seconds_with(made, StateMedium::memory, p); };
        const FastPlacement all =
            place_for_time(made.parcels, made.hosts, made.rank_locations, StateMedium::memory, start, seconds_of);
        const FastPlacement some =
            place_for_time(made.parcels, made.hosts, made.rank_locations, StateMedium::memory, start, seconds_of, 30);
        REQUIRE(all.is_fastest);
        REQUIRE(some.seconds >= all.seconds * (1 - 1e-9));
        if (all.seconds == 0) continue;
        worst = std::max(worst, some.seconds / all.seconds);
        missed += some.seconds > all.seconds * (1 + 1e-9);
        ++done;
    }
    MESSAGE(missed << " of " << done << " were missed, the worst takes " << worst << " times the least");
    CHECK(done > 100);
    CHECK(worst < 2.5);
}

TEST_CASE("a slow host gets the block that needs the least, although it holds more of another") {
    // Two hosts with one device each; host 0 receives at 1 GB/s, host 1 at 10 GB/s. Rank 0 needs 9 GB, of which host 0
    // holds 4 GB; rank 1 needs 4 GB, of which host 1 holds 1 GB.
    Instance made;
    made.hosts = uniform_hosts(3, 1);
    made.hosts[0].nic = 1e9;
    made.hosts[1].nic = 10e9;
    made.hosts[2].nic = 100e9;
    made.rank_locations = {{0, 0}, {1, 1}, {2, 2}};
    Parcels& parcels = made.parcels;
    parcels = {.old_ranks = 3, .new_ranks = 2, .roles = {Role::weight}, .tensors = {"w"}};
    const auto add = [&](std::int32_t holder, std::int32_t needer, std::uint64_t bytes) {
        const std::vector<std::int32_t> holders{holder}, needers{needer};
        parcels.parcels.push_back({parcels.holders.add(holders), parcels.needers.add(needers), 0, 0, false, bytes});
    };
    add(0, 0, 4'000'000'000);
    add(2, 0, 5'000'000'000);
    add(1, 1, 1'000'000'000);
    add(2, 1, 3'000'000'000);
    made.hosts[2].lost_devices = {};
    ChangeOptions options{.objective = Objective::time};
    const Change change = make_change(made.parcels, made.hosts, made.rank_locations, options);
    REQUIRE(change.by_time);
    CHECK(change.by_time->is_fastest);
    CHECK(change.prediction.seconds() == change.by_time->seconds);
    CHECK(change.by_time->seconds < change.by_time->seconds_of_fewest_bytes);
}
