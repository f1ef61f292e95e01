// SPDX-License-Identifier: Apache-2.0
#include "lib/change/placement.hpp"

#include "lib/core/error.hpp"
#include "tests/unit/change/random_parcels.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

using namespace tpx;
using namespace tpx::testing;

namespace {

bool holds(const Instance& instance, const RankLocation& location) {
    if (location.host < 0 || instance.hosts[location.host].lost) return false;
    const auto& lost = instance.hosts[location.host].lost_devices;
    const int device = location.device - first_devices(instance.hosts)[location.host];
    return location.device < 0 || std::ranges::find(lost, device) == lost.end();
}

int room(const Host& host) { return host.lost ? 0 : host.gpus - static_cast<int>(host.lost_devices.size()); }

// The same counts by brute force, from a table of all blocks and hosts. `cut_for`: the host for which each block was
// cut.
class Brute {
public:
    Brute(const Instance& instance, const Placement& placement, std::vector<std::uint32_t> cut_for)
        : given{std::move(cut_for)}, instance_{instance}, placement_{placement} {
        for (std::uint32_t host : given) spares = spares || instance.hosts[host].spare;
        for (const Block& block : placement.blocks) {
            std::vector<std::int64_t> row;
            for (std::int32_t h = 0; h < std::ssize(instance.hosts); ++h) row.push_back(cost(block, h));
            costs.push_back(row);
        }
    }

    bool takes(std::size_t block, std::size_t host) const {
        const Block& it = placement_.blocks[block];
        return room(instance_.hosts[host]) >= it.end - it.begin && (spares || !instance_.hosts[host].spare);
    }
    // Whether a host has a block in every assignment compared.
    bool is_required(std::uint32_t host) const {
        return spares && !instance_.hosts[host].spare && std::ranges::find(given, host) != given.end();
    }

    struct Best {
        std::int64_t crossing = std::int64_t{1} << 62;
        double longest = 0;  // seconds for which one host receives, if NICs differ
        int moved = 0;       // blocks that are not where the given order puts them

        auto operator<=>(const Best&) const = default;
    };

    // Whether all hosts that can take blocks have the same NIC rate.
    bool are_alike() const {
        std::set<double> rates;
        for (const Host& host : instance_.hosts) {
            if (room(host) > 0 && (!host.spare || spares)) rates.insert(nic(host));
        }
        return rates.size() == 1;
    }
    static double nic(const Host& host) { return host.nic.value_or(default_rates.nic); }
    double seconds(std::size_t block, std::size_t host) const {
        return are_alike() ? 0 : static_cast<double>(costs[block][host]) / nic(instance_.hosts[host]);
    }

    // The best of all assignments: the fewest bytes, then the shortest time of the host that receives longest, then the
    // closest to the given order.
    Best best() const {
        Best least;
        std::vector<bool> used(instance_.hosts.size());
        const std::function<void(std::size_t, Best)> go = [&](std::size_t block, Best sum) {
            if (block == costs.size()) {
                for (std::uint32_t host = 0; host < used.size(); ++host)
                    if (is_required(host) && !used[host]) return;
                return void(least = std::min(least, sum));
            }
            for (std::size_t host = 0; host < used.size(); ++host) {
                if (used[host] || !takes(block, host)) continue;
                used[host] = true;
                go(block + 1, {sum.crossing + costs[block][host], std::max(sum.longest, seconds(block, host)),
                               sum.moved + (given[block] != host)});
                used[host] = false;
            }
        };
        go(0, {0, 0, 0});
        return least;
    }

    Best of_placement() const {
        Best sum{0, 0, 0};
        for (std::size_t b = 0; b < costs.size(); ++b) {
            const std::uint32_t host = placement_.blocks[b].host;
            sum = {sum.crossing + costs[b][host], std::max(sum.longest, seconds(b, host)),
                   sum.moved + (given[b] != host)};
        }
        return sum;
    }

    std::vector<std::vector<std::int64_t>> costs;
    std::vector<std::uint32_t> given;
    bool spares = false;  // some are used

private:
    std::int64_t cost(const Block& block, std::int32_t host) const {
        std::int64_t bytes = 0;
        for (const Parcel& parcel : instance_.parcels.parcels) {
            const auto needers = instance_.parcels.needers[parcel.needers];
            const auto holders = instance_.parcels.holders[parcel.holders];
            const bool needed = std::ranges::any_of(needers, [&](auto r) { return block.begin <= r && r < block.end; });
            const bool held = std::ranges::any_of(holders, [&](auto r) {
                return instance_.rank_locations[r].host == host && holds(instance_, instance_.rank_locations[r]);
            });
            if (needed && !held) bytes += static_cast<std::int64_t>(parcel.bytes);
        }
        return bytes;
    }

    const Instance& instance_;
    const Placement& placement_;
};

std::vector<std::uint32_t> given_hosts(const Instance& instance, std::size_t blocks) {
    std::vector<std::uint32_t> given;
    for (std::uint32_t h = 0; h < instance.hosts.size(); ++h) {
        if (room(instance.hosts[h]) > 0) given.push_back(h);
    }
    std::ranges::stable_sort(given, {}, [&](std::uint32_t h) {  // spare hosts last, the largest of them first
        return instance.hosts[h].spare ? std::pair{1, -room(instance.hosts[h])} : std::pair{0, 0};
    });
    if (given.size() > blocks) given.resize(blocks);
    return given;
}

bool prices_prove(const Instance& instance, const Placement& placement, const Brute& brute) {
    const auto used = [&](std::size_t host) {
        return std::ranges::any_of(placement.blocks, [&](const Block& block) { return block.host == host; });
    };
    for (std::uint32_t h = 0; h < instance.hosts.size(); ++h) {
        if (placement.host_prices[h] > 0 && !brute.is_required(h)) return false;
        if (placement.host_prices[h] != 0 && !used(h)) return false;
        if (brute.is_required(h) && !used(h)) return false;
        for (std::size_t b = 0; b < placement.blocks.size(); ++b) {
            const std::int64_t slack = brute.costs[b][h] - placement.blocks[b].price - placement.host_prices[h];
            if (brute.takes(b, h) && slack < 0) return false;
            if (placement.blocks[b].host == h && slack != 0) return false;
        }
    }
    return true;
}

// Bytes that `rank` needs and that old ranks on `device` hold.
std::uint64_t on_device(const Instance& instance, std::int32_t rank, std::int32_t device) {
    std::uint64_t bytes = 0;
    for (const Parcel& parcel : instance.parcels.parcels) {
        const bool needed = std::ranges::binary_search(instance.parcels.needers[parcel.needers], rank);
        const bool held = std::ranges::any_of(instance.parcels.holders[parcel.holders], [&](std::int32_t old) {
            const RankLocation& location = instance.rank_locations[old];
            return holds(instance, location) && location.device == device;
        });
        if (needed && held) bytes += parcel.bytes;
    }
    return bytes;
}

bool ranks_are_best(const Instance& instance, const Placement& placement) {
    const std::vector<std::int32_t> firsts = first_devices(instance.hosts);
    for (const Block& block : placement.blocks) {
        std::vector<std::int32_t> devices;
        for (int device = 0; device < instance.hosts[block.host].gpus; ++device) {
            const auto& lost = instance.hosts[block.host].lost_devices;
            if (std::ranges::find(lost, device) == lost.end()) devices.push_back(firsts[block.host] + device);
        }
        const std::vector<std::int32_t> in_order = devices;
        using Score = std::pair<std::uint64_t, int>;  // bytes there, ranks in the given order
        const auto score = [&](auto device_of) {
            Score sum;
            for (std::int32_t r = block.begin; r < block.end; ++r) {
                const std::int32_t device = device_of(r);
                sum.first += on_device(instance, r, device);
                sum.second += device == in_order[r - block.begin];
            }
            return sum;
        };
        Score best;
        do {
            best = std::max(best, score([&](std::int32_t r) { return devices[r - block.begin]; }));
        } while (std::ranges::next_permutation(devices).found);
        if (score([&](std::int32_t r) { return placement.devices[r]; }) != best) return false;
        std::set<std::int32_t> used{&placement.devices[block.begin],
                                    &placement.devices[block.begin] + block.end - block.begin};
        if (std::ssize(used) != block.end - block.begin) return false;
        if (!std::ranges::includes(in_order, used)) return false;
    }
    return true;
}

}  // namespace

TEST_CASE("no assignment of blocks to hosts beats the placement in bytes, then time, as its prices prove") {
    RandomInstances random{4};
    int moved = 0;
    int spares = 0;
    int differing = 0;
    for (int i = 0; i < 10'000; ++i) {
        CAPTURE(i);
        Extent extent;
        if (i % 4 == 0) extent = {6, 2, 8, 12, i % 8 == 0 ? 2 : 1000, true};
        const Instance instance = random(extent);
        const Placement placement = place(instance.parcels, instance.hosts, instance.rank_locations, false);
        const Brute brute{instance, placement, given_hosts(instance, placement.blocks.size())};
        const Brute::Best best = brute.best();
        const Brute::Best found = brute.of_placement();
        const auto spare_hosts =
            std::ranges::count_if(placement.blocks, [&](const Block& b) { return instance.hosts[b.host].spare; });
        const auto regular = std::ranges::count_if(instance.hosts, [](const Host& h) { return !h.lost && !h.spare; });
        REQUIRE(spare_hosts == std::max(std::ssize(placement.blocks) - regular, std::ptrdiff_t{0}));
        REQUIRE(found.crossing == best.crossing);
        REQUIRE(found.longest == best.longest);
        if (brute.are_alike()) REQUIRE(found.moved == best.moved);
        differing += !brute.are_alike() && best.crossing > 0;
        REQUIRE(placement.crossing == static_cast<std::uint64_t>(best.crossing));
        REQUIRE(prices_prove(instance, placement, brute));
        REQUIRE(ranks_are_best(instance, placement));
        moved += best.moved != 0;
        spares += brute.spares;
    }
    CHECK(moved > 1000);
    CHECK(spares > 100);
    CHECK(differing > 1000);
}

TEST_CASE("prices prove placements on many hosts with widely held and needed state") {
    RandomInstances random{9};
    for (int i = 0; i < 60; ++i) {
        CAPTURE(i);
        const Extent extent{40, 3, 70, i % 2 == 0 ? 60 : 15, i % 3 == 0 ? 3 : 1000, true};
        const Instance instance = random(extent);
        const Placement placement = place(instance.parcels, instance.hosts, instance.rank_locations, false);
        const Brute brute{instance, placement, given_hosts(instance, placement.blocks.size())};
        CHECK(prices_prove(instance, placement, brute));
        CHECK(placement.crossing == static_cast<std::uint64_t>(brute.of_placement().crossing));
    }
}

TEST_CASE("groups of ranks and lost devices: no assignment of the blocks is better, and no rank is on a lost device") {
    RandomInstances random{6};
    int skipped = 0, spares = 0, lost = 0, split = 0;
    for (int i = 0; i < 10'000; ++i) {
        CAPTURE(i);
        const int group = random.number(1, 3);
        Instance instance = random({.hosts = 5, .gpus = 4, .ranks = 10, .bytes = 1000, .devices = true});
        if (instance.parcels.new_ranks % group != 0) continue;
        const std::vector<Block> cut = cut_blocks(instance.hosts, instance.parcels.new_ranks, group);
        std::vector<std::uint32_t> given;
        for (const Block& block : cut) given.push_back(block.host);
        const Placement placement = place(instance.parcels, instance.hosts, instance.rank_locations, false, group);
        const Brute brute{instance, placement, given};
        const Brute::Best best = brute.best();
        const Brute::Best found = brute.of_placement();
        REQUIRE(placement.group == group);
        REQUIRE(split_groups(placement.blocks, group) == split_groups(cut, group));
        REQUIRE(found.crossing == best.crossing);
        REQUIRE(found.longest == best.longest);
        if (brute.are_alike()) REQUIRE(found.moved == best.moved);
        REQUIRE(placement.crossing == static_cast<std::uint64_t>(best.crossing));
        REQUIRE(prices_prove(instance, placement, brute));
        REQUIRE(ranks_are_best(instance, placement));
        skipped += given != given_hosts(instance, given.size());
        spares += brute.spares;
        split += !split_groups(cut, group).empty();
        for (const Block& block : cut) lost += !instance.hosts[block.host].lost_devices.empty();
    }
    CHECK(skipped > 100);
    CHECK(spares > 500);
    CHECK(lost > 3000);
    CHECK(split > 100);
}

TEST_CASE("an unchanged layout is not moved, and any permutation of hosts is undone") {
    const Parcels parcels = grid(3, 4, 5);
    const std::vector<Host> hosts = uniform_hosts(15, 4);
    std::vector<std::int32_t> order(hosts.size());
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 engine{5};
    for (int i = 0; i < 20; ++i) {
        std::vector<RankLocation> rank_locations;
        std::vector<std::int32_t> devices;
        for (std::int32_t rank = 0; rank < parcels.old_ranks; ++rank) {
            const std::int32_t host = order[rank / 4];
            const std::int32_t device = host * 4 + (rank + i) % 4;
            rank_locations.push_back({host, device});
            devices.push_back(device);
        }
        const Placement placement = place(parcels, hosts, rank_locations, false);
        CHECK(placement.crossing == 0);
        CHECK(placement.devices == devices);
        std::shuffle(order.begin(), order.end(), engine);
    }
}

TEST_CASE("a pinned order stays, whatever it costs") {
    const Parcels parcels = grid(2, 2, 2);
    const std::vector<Host> hosts = uniform_hosts(4, 2);
    std::vector<RankLocation> rank_locations;
    for (std::int32_t rank = 0; rank < 8; ++rank) rank_locations.push_back({3 - rank / 2, 7 - rank});
    const Placement pinned = place(parcels, hosts, rank_locations, true);
    CHECK(pinned.placed_for == PlacementGoal::order);
    CHECK(pinned.devices == std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7});
    CHECK(pinned.crossing == 8 * 1700);
    CHECK(place(parcels, hosts, rank_locations, false).crossing == 0);
}

TEST_CASE("spare hosts are used only if necessary, lost ones never") {
    const Parcels parcels = grid(1, 2, 2);
    std::vector<Host> hosts = uniform_hosts(4, 2);
    hosts[0].spare = true;
    hosts[3].lost = true;
    const std::vector<RankLocation> rank_locations{{0, 0}, {0, 1}, {3, 6}, {3, 7}};
    const Placement placement = place(parcels, hosts, rank_locations, false);
    CHECK(placement.blocks[0].host == 1);
    CHECK(placement.blocks[1].host == 2);
    CHECK(placement.crossing == 2 * 2 * 1700);
    hosts[1].lost = true;
    const Placement with_spare = place(parcels, hosts, rank_locations, false);
    CHECK(with_spare.blocks[0].host == 0);
    CHECK(with_spare.blocks[1].host == 2);
    CHECK(with_spare.crossing == 2 * 1700);
}

TEST_CASE("ranks that do not fit and seats that do not exist are refused") {
    const Parcels parcels = grid(1, 2, 2);
    std::vector<Host> hosts = uniform_hosts(3, 2);
    std::vector<RankLocation> rank_locations{{0, 0}, {0, 1}, {1, 2}, {1, 3}};
    hosts[0].lost = hosts[1].lost = true;
    CHECK_THROWS_WITH_AS(place(parcels, hosts, rank_locations, false),
                         "4 ranks do not fit on 1 host with 2 GPUs in all", Error);
    rank_locations[3].host = 3;
    CHECK_THROWS_WITH_AS(place(parcels, hosts, rank_locations, false), "old rank 3 is on host 3 of 3", Error);
    rank_locations[3] = {1, 4};
    CHECK_THROWS_WITH_AS(place(parcels, hosts, rank_locations, false),
                         "old rank 3 is on device 4, which does not belong to host 'host1'", Error);
    rank_locations.pop_back();
    CHECK_THROWS_WITH_AS(place(parcels, hosts, rank_locations, false), "4 old ranks, but seats for 3", Error);
    rank_locations = {{2, 4}, {2, 5}, {2, 4}, {2, 5}};
    hosts[0].lost = false;
    Parcels huge = grid(1, 2, 2);
    huge.parcels[0].bytes = std::uint64_t{1} << 62;
    CHECK_THROWS_WITH_AS(place(huge, hosts, rank_locations, false),
                         "the ranks need 4.6e+18 bytes together, 2^62 or more", Error);
}
