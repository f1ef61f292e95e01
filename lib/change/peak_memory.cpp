// SPDX-License-Identifier: Apache-2.0
#include "lib/change/peak_memory.hpp"

#include "lib/change/mapped_rank_sets.hpp"
#include "lib/change/rank_locations.hpp"

#include <algorithm>
#include <map>

namespace tpx {
namespace {

/// The bytes that each new rank finds on its device in exactly the pieces that it needs.
std::vector<std::uint64_t> kept_bytes(const Parcels& parcels, std::span<const Host> hosts,
                                      std::span<const RankLocation> old_ranks, const Placement& placement) {
    const MappedRankSets on = map_rank_sets(parcels.holders, old_rank_devices(hosts, old_ranks));
    std::vector<std::uint64_t> kept(placement.devices.size());
    for (const Parcel& parcel : parcels.parcels) {
        if (parcel.recut) continue;
        for (std::int32_t rank : parcels.needers[parcel.needers]) {
            const auto at = static_cast<std::size_t>(rank);
            if (std::ranges::binary_search(on[parcel.holders], placement.devices[at])) kept[at] += parcel.bytes;
        }
    }
    return kept;
}

}  // namespace

std::vector<PeakMemory> peak_memory(const Parcels& parcels, std::span<const Host> hosts,
                                    std::span<const RankLocation> old_ranks, const Placement& placement,
                                    const Relocation& relocation, std::span<const std::uint64_t> before,
                                    std::span<const std::uint64_t> after) {
    std::map<std::int32_t, PeakMemory> devices;
    const std::vector<std::int32_t> old_devices = old_rank_devices(hosts, old_ranks);
    for (std::size_t rank = 0; rank < old_devices.size(); ++rank) {
        if (old_devices[rank] >= 0) devices[old_devices[rank]].before += before[rank];
    }
    const std::vector<std::uint64_t> kept = kept_bytes(parcels, hosts, old_ranks, placement);
    for (std::size_t rank = 0; rank < placement.devices.size(); ++rank) {
        PeakMemory& device = devices[placement.devices[rank]];
        device.after += after[rank];
        device.kept += kept[rank];
    }
    const std::vector<std::int32_t> firsts = first_devices(hosts);
    std::vector<PeakMemory> peaks;
    for (auto& [number, device] : devices) {
        const auto host = std::ranges::upper_bound(firsts, number) - firsts.begin() - 1;
        device.host = static_cast<std::uint32_t>(host);
        device.device = number - firsts[static_cast<std::size_t>(host)];
        const auto gpus = static_cast<std::uint64_t>(std::max(free_devices(hosts[device.host]), 1));
        device.staging = (relocation.staging[device.host] + gpus - 1) / gpus;
        peaks.push_back(device);
    }
    return peaks;
}

}  // namespace tpx
