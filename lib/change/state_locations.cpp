// SPDX-License-Identifier: Apache-2.0
#include "lib/change/state_locations.hpp"

#include "lib/change/rank_locations.hpp"

#include <algorithm>

namespace tpx {

std::vector<std::int32_t> hosts_of_devices(std::span<const Host> hosts, std::span<const std::int32_t> devices) {
    const std::vector<std::int32_t> firsts = first_devices(hosts);
    std::vector<std::int32_t> result;
    result.reserve(devices.size());
    for (std::int32_t device : devices)
        result.push_back(static_cast<std::int32_t>(std::ranges::upper_bound(firsts, device) - firsts.begin()) - 1);
    return result;
}

StateLocations::StateLocations(const Parcels& parcels, std::span<const Host> hosts,
                               std::span<const RankLocation> old_ranks, const Placement& placement)
    : old_hosts{old_rank_hosts(hosts, old_ranks, parcels.old_ranks)},
      holding{map_rank_sets(parcels.holders, old_hosts)},
      on{map_rank_sets(parcels.holders, old_rank_devices(hosts, old_ranks))},
      new_hosts{hosts_of_devices(hosts, placement.devices)} {
    needing = map_rank_sets(parcels.needers, new_hosts);
}

std::uint64_t crossing_bytes(const Parcels& parcels, std::span<const Host> hosts,
                             std::span<const RankLocation> old_ranks, const Placement& placement) {
    const StateLocations where{parcels, hosts, old_ranks, placement};
    std::uint64_t bytes = 0;
    for (const Parcel& parcel : parcels.parcels) {
        for (std::int32_t host : where.needing[parcel.needers]) {
            if (!std::ranges::binary_search(where.holding[parcel.holders], host)) bytes += parcel.bytes;
        }
    }
    return bytes;
}

}  // namespace tpx
