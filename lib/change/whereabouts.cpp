// SPDX-License-Identifier: Apache-2.0
#include "lib/change/whereabouts.hpp"

#include "lib/change/seats.hpp"

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

Whereabouts::Whereabouts(const Parcels& parcels, std::span<const Host> hosts, std::span<const Seat> old_ranks,
                         const Placement& placement)
    : old_hosts{seat_hosts(hosts, old_ranks, parcels.old_ranks)},
      holding{images(parcels.holders, old_hosts)},
      on{images(parcels.holders, seat_devices(hosts, old_ranks))},
      new_hosts{hosts_of_devices(hosts, placement.devices)} {
    needing = images(parcels.needers, new_hosts);
}

std::uint64_t crossing_bytes(const Parcels& parcels, std::span<const Host> hosts, std::span<const Seat> old_ranks,
                             const Placement& placement) {
    const Whereabouts where{parcels, hosts, old_ranks, placement};
    std::uint64_t bytes = 0;
    for (const Parcel& parcel : parcels.parcels) {
        for (std::int32_t host : where.needing[parcel.needers]) {
            if (!std::ranges::binary_search(where.holding[parcel.holders], host)) bytes += parcel.bytes;
        }
    }
    return bytes;
}

}  // namespace tpx
