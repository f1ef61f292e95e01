// SPDX-License-Identifier: Apache-2.0
#include "lib/change/choose_devices.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

using namespace tpx;

namespace {

/// A change on one host: new rank k needs what old rank home[k] holds, and less of what a few other ranks hold.
struct OneHost {
    Parcels parcels;
    std::vector<std::int32_t> home;

    OneHost(int ranks, std::mt19937& random) : home(static_cast<std::size_t>(ranks)) {
        parcels.old_ranks = parcels.new_ranks = ranks;
        parcels.roles = {Role::weight};
        parcels.tensors = {"w"};
        std::iota(home.begin(), home.end(), 0);
        std::ranges::shuffle(home, random);
        std::uniform_int_distribution<std::int32_t> any{0, ranks - 1};
        for (std::int32_t rank = 0; rank < ranks; ++rank) {
            add(home[static_cast<std::size_t>(rank)], rank, 1000);
            for (int i = 0; i < 3; ++i) add(any(random), rank, 100);
        }
    }

    void add(std::int32_t holder, std::int32_t needer, std::uint64_t bytes) {
        parcels.parcels.push_back({.holders = parcels.holders.add({&holder, 1}),
                                   .needers = parcels.needers.add({&needer, 1}),
                                   .bytes = bytes});
    }

    std::vector<std::int32_t> chosen() const {
        const int ranks = parcels.new_ranks;
        std::vector<RankLocation> rank_locations;
        for (std::int32_t rank = 0; rank < ranks; ++rank) rank_locations.push_back({.host = 0, .device = rank});
        const std::vector<Host> hosts{{.name = "h", .gpus = ranks}};
        const std::vector<Block> blocks{{.begin = 0, .end = ranks, .host = 0}};
        return choose_devices(parcels, hosts, rank_locations, blocks);
    }
};

}  // namespace

// With more than 512 devices, pairs are chosen greedily by gain; else by an exact assignment. Here both find the same
// optimum.
TEST_CASE("ranks get the devices that hold most of the bytes that they need, on hosts of any size") {
    std::mt19937 random{7};
    for (const int ranks : {1, 8, 512, 513, 3000}) {
        const OneHost host{ranks, random};
        CHECK(host.chosen() == host.home);
    }
}

TEST_CASE("ranks that need nothing from their host get the remaining devices") {
    std::mt19937 random{11};
    for (const int ranks : {6, 600}) {
        OneHost host{ranks, random};
        std::erase_if(host.parcels.parcels,
                      [&](const Parcel& p) { return host.parcels.needers[p.needers][0] % 3 == 0; });
        std::vector<std::int32_t> devices = host.chosen();
        std::ranges::sort(devices);
        std::vector<std::int32_t> all(devices.size());
        std::iota(all.begin(), all.end(), 0);
        CHECK(devices == all);
    }
}
