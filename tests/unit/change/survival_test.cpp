// SPDX-License-Identifier: Apache-2.0
#include "lib/change/survival.hpp"

#include "lib/change/peak_memory.hpp"
#include "lib/change/state_locations.hpp"
#include "tests/unit/change/random_parcels.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <set>

using namespace tpx;
using namespace tpx::testing;

namespace {

/// Whether some state is lost with the hosts of a bit mask.
bool loses(const Instance& instance, const Placement& placement, unsigned lost) {
    const std::vector<std::int32_t> hosts = hosts_of_devices(instance.hosts, placement.devices);
    return std::ranges::any_of(instance.parcels.parcels, [&](const Parcel& parcel) {
        const auto needers = instance.parcels.needers[parcel.needers];
        return std::ranges::all_of(needers, [&](std::int32_t rank) { return (lost >> hosts[rank] & 1) != 0; });
    });
}

}  // namespace

TEST_CASE("state survives the loss of exactly the given number of hosts, whichever they are") {
    RandomInstances random{5};
    for (int round = 0; round < 2000; ++round) {
        const Instance instance = random({.lost = false});
        const Placement placement = place(instance.parcels, instance.hosts, instance.rank_locations, false);
        const Survival survival = survival_of(instance.parcels, instance.hosts, placement);
        int fewest = static_cast<int>(instance.hosts.size()) + 1;
        std::set<unsigned> critical;
        for (unsigned lost = 1; lost < 1u << instance.hosts.size(); ++lost) {
            if (!loses(instance, placement, lost)) continue;
            const int count = std::popcount(lost);
            if (count < fewest) critical.clear();
            fewest = std::min(fewest, count);
            if (count == fewest) critical.insert(lost);
        }
        REQUIRE(survival.tolerated_losses() == fewest - 1);
        std::set<unsigned> found;
        std::uint64_t bytes = 0;
        for (const CriticalHosts& each : survival.critical) {
            unsigned mask = 0;
            for (std::int32_t host : each.hosts) mask |= 1u << host;
            found.insert(mask);
            bytes += each.bytes;
        }
        REQUIRE(found == critical);
        REQUIRE(survival.next_copy() == bytes);
    }
}

TEST_CASE("the peak of a device includes its old state, its new state and its transfer buffers") {
    RandomInstances random{6};
    for (int round = 0; round < 500; ++round) {
        const Instance instance = random({.lost = false});
        const Placement placement = place(instance.parcels, instance.hosts, instance.rank_locations, false);
        const Relocation relocation =
            relocate(instance.parcels, instance.hosts, instance.rank_locations, placement, StateMedium::memory, false);
        std::vector<std::uint64_t> before(instance.rank_locations.size());
        std::vector<std::uint64_t> after(placement.devices.size());
        for (const Parcel& parcel : instance.parcels.parcels) {
            for (std::int32_t rank : instance.parcels.holders[parcel.holders]) before[rank] += parcel.bytes;
            for (std::int32_t rank : instance.parcels.needers[parcel.needers]) after[rank] += parcel.bytes;
        }
        const auto peaks = peak_memory(instance.parcels, instance.hosts, instance.rank_locations, placement, relocation,
                                       before, after);
        std::uint64_t kept = 0;
        std::uint64_t held = 0;
        for (const PeakMemory& peak : peaks) {
            kept += peak.kept;
            held += peak.after;
            CHECK(peak.kept <= std::min(peak.before, peak.after));
            CHECK(peak.device < instance.hosts[peak.host].gpus);
            CHECK(peak.staging * static_cast<std::uint64_t>(instance.hosts[peak.host].gpus) >=
                  relocation.staging[peak.host]);
        }
        CHECK(kept == relocation.total.kept);
        CHECK(held == relocation.total.needed);
    }
}
