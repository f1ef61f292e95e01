// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <vector>

namespace tpx::testing {

/// A change of layout on some hosts.
struct Instance {
    Parcels parcels;
    std::vector<Host> hosts;
    std::vector<RankLocation> rank_locations;
};

/// Limits of a random instance.
struct Extent {
    int hosts = 4;
    int gpus = 3;   ///< at most this many per host
    int ranks = 8;  ///< at most this many old ranks, and new ranks
    int parcels = 6;
    int bytes = 12;
    bool lost = true;      ///< some hosts may be lost or spare, and some state on no host
    bool devices = false;  ///< some devices may be lost
};

/// Makes small random changes: uneven hosts, replicas, lost and spare hosts, ranks in any order.
class RandomInstances {
public:
    explicit RandomInstances(unsigned seed) : engine_{seed} {}

    int number(int from, int to) { return std::uniform_int_distribution{from, to}(engine_); }
    bool chance(int percent) { return number(1, 100) <= percent; }

    Instance operator()(const Extent& extent) {
        Instance made;
        made.hosts = uniform_hosts(number(1, extent.hosts), 1);
        int places = 0;
        for (Host& host : made.hosts) {
            host.gpus = number(1, extent.gpus);
            host.lost = extent.lost && &host != &made.hosts.front() && chance(10);
            host.spare = extent.lost && chance(15);
            if (chance(50)) host.nic = number(1, 4);
            if (chance(50)) host.disk_read = number(1, 4);
            if (chance(40)) host.switch_group.push_back(chance(50) ? 'b' : 'c');
            if (extent.devices) lose_devices(host, &host == &made.hosts.front());
            places += free_devices(host);
        }
        location(made, extent);
        made.parcels.new_ranks = number(1, std::min(places, extent.ranks));
        made.parcels.roles = {Role::weight, Role::exp_avg};
        made.parcels.tensors = {"a", "b"};
        fill(made, extent);
        return made;
    }

private:
    void lose_devices(Host& host, bool leave_one) {
        for (int device = leave_one ? 1 : 0; device < host.gpus; ++device) {
            if (chance(20)) host.lost_devices.push_back(device);
        }
    }

    // Devices get old ranks in order or at random; some old ranks are in a host's store only.
    void location(Instance& made, const Extent& extent) {
        const std::vector<std::int32_t> firsts = first_devices(made.hosts);
        for (std::int32_t h = 0; h < std::ssize(made.hosts); ++h) {
            for (std::int32_t device = firsts[h]; device < firsts[h + 1]; ++device)
                made.rank_locations.push_back({h, device});
        }
        if (chance(50)) std::shuffle(made.rank_locations.begin(), made.rank_locations.end(), engine_);
        made.rank_locations.resize(std::min<std::size_t>(made.rank_locations.size(), number(1, extent.ranks)));
        if (chance(10)) made.rank_locations.front().device = -1;
        if (extent.lost && chance(5)) made.rank_locations.front() = {};
        made.parcels.old_ranks = static_cast<int>(made.rank_locations.size());
    }

    std::vector<std::int32_t> some(int ranks, int least) {
        const int density = number(1, 3) * 30;
        std::vector<std::int32_t> chosen;
        for (std::int32_t rank = 0; rank < ranks; ++rank) {
            if (chance(density)) chosen.push_back(rank);
        }
        if (std::ssize(chosen) < least) chosen.push_back(number(0, ranks - 1));
        return chosen;
    }

    void fill(Instance& made, const Extent& extent) {
        Parcels& parcels = made.parcels;
        for (int i = number(1, extent.parcels); i > 0; --i) {
            Parcel parcel;
            parcel.holders = parcels.holders.add(some(parcels.old_ranks, 1));
            parcel.needers = parcels.needers.add(some(parcels.new_ranks, 1));
            parcel.role = number(0, 1);
            parcel.tensor = number(0, 1);
            parcel.recut = chance(30);
            parcel.bytes = number(1, extent.bytes);
            parcels.parcels.push_back(parcel);
        }
    }

    std::mt19937 engine_;
};

/// An unchanged layout of `stages` x `replicas` x `shards` ranks: weights are replicated, the optimizer is sharded
/// across the replicas.
inline Parcels grid(int stages, int shards, int replicas) {
    Parcels parcels;
    parcels.old_ranks = parcels.new_ranks = stages * shards * replicas;
    parcels.roles = {Role::weight, Role::exp_avg};
    parcels.tensors = {"w"};
    const auto rank = [&](int stage, int replica, int shard) { return (stage * replicas + replica) * shards + shard; };
    for (int stage = 0; stage < stages; ++stage) {
        for (int shard = 0; shard < shards; ++shard) {
            std::vector<std::int32_t> all;
            for (int replica = 0; replica < replicas; ++replica) {
                all.push_back(rank(stage, replica, shard));
                const std::vector<std::int32_t> one{all.back()};
                parcels.parcels.push_back({parcels.holders.add(one), parcels.needers.add(one), 1, 0, false, 700u});
            }
            parcels.parcels.push_back({parcels.holders.add(all), parcels.needers.add(all), 0, 0, false, 1000u});
        }
    }
    return parcels;
}

}  // namespace tpx::testing
