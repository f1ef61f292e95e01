// SPDX-License-Identifier: Apache-2.0
#include "lib/change/survival.hpp"

#include "lib/change/mapped_rank_sets.hpp"
#include "lib/change/state_locations.hpp"

namespace tpx {

Survival survival_of(const Parcels& parcels, std::span<const Host> hosts, const Placement& placement) {
    const MappedRankSets holding = map_rank_sets(parcels.needers, hosts_of_devices(hosts, placement.devices));
    std::map<std::uint32_t, std::uint64_t> bytes_of_sets;
    for (const Parcel& parcel : parcels.parcels) bytes_of_sets[holding.set[parcel.needers]] += parcel.bytes;
    Survival survival;
    std::map<std::vector<std::int32_t>, std::uint64_t> critical;
    for (const auto& [set, bytes] : bytes_of_sets) {
        const auto on = holding.sets[set];
        const int copies = static_cast<int>(on.size());
        survival.bytes_by_copies[copies] += bytes;
        if (survival.copies == 0 || copies < survival.copies) {
            survival.copies = copies;
            critical.clear();
        }
        if (copies == survival.copies) critical[{on.begin(), on.end()}] += bytes;
    }
    for (const auto& [on, bytes] : critical) survival.critical.push_back({on, bytes});
    return survival;
}

}  // namespace tpx
