// SPDX-License-Identifier: Apache-2.0
#include "lib/change/change.hpp"

#include <algorithm>

namespace tpx {
namespace {

/// Bytes of the ranks of sets, added up over all parcels.
std::vector<std::uint64_t> bytes_of(const Parcels& parcels, const RankSets& sets, std::uint32_t Parcel::*set,
                                    int ranks) {
    std::vector<std::uint64_t> bytes(static_cast<std::size_t>(ranks));
    for (const Parcel& parcel : parcels.parcels) {
        for (std::int32_t rank : sets[parcel.*set]) bytes[static_cast<std::size_t>(rank)] += parcel.bytes;
    }
    return bytes;
}

Prediction prediction_of(const Change& change, std::optional<StorageBytes> stored) {
    const std::vector<Host>& hosts = change.setting.hosts;
    const bool shared = change.setting.state == StateIn::shared;
    if (stored && shared) return predict(hosts, storage_loads(hosts, stored->read, stored->written));
    if (shared && !is_mixed(change)) return predict(hosts, reading_loads(change.parcels, change.placement, hosts));
    return predict(hosts, change.relocation.hosts,
                   change.setting.state == StateIn::stores ? RankMemory::host : RankMemory::device);
}

PeakMemory fullest_device(const Change& change) {
    const Setting& at = change.setting;
    const std::vector<PeakMemory> peaks =
        peak_memory(change.parcels, at.hosts, at.old_ranks, change.placement, change.relocation, change.held_before,
                    change.held_after);
    return *std::ranges::max_element(peaks, {}, [&](const PeakMemory& peak) {
        return static_cast<double>(peak.peak()) - at.hosts[peak.host].device_memory.value_or(0);
    });
}

}  // namespace

std::vector<std::uint64_t> bytes_before(const Parcels& parcels) {
    return bytes_of(parcels, parcels.holders, &Parcel::holders, parcels.old_ranks);
}

std::vector<std::uint64_t> bytes_after(const Parcels& parcels) {
    return bytes_of(parcels, parcels.needers, &Parcel::needers, parcels.new_ranks);
}

bool is_mixed(const Change& change) {
    return change.setting.state == StateIn::shared && change.relocation.total.storage > 0;
}

Change make_change(Parcels parcels, Setting setting, std::vector<std::uint64_t> held_before,
                   std::vector<std::uint64_t> held_after, std::optional<StorageBytes> stored) {
    Change change{.setting = std::move(setting), .parcels = std::move(parcels)};
    const Setting& at = change.setting;
    change.held_before = held_before.empty() ? bytes_before(change.parcels) : std::move(held_before);
    change.held_after = held_after.empty() ? bytes_after(change.parcels) : std::move(held_after);
    change.placement = place(change.parcels, at.hosts, at.old_ranks, at.pinned);
    change.relocation =
        relocate(change.parcels, at.hosts, at.old_ranks, change.placement, at.state, at.may_read, at.window);
    change.prediction = prediction_of(change, stored);
    if (at.state == StateIn::memory) change.peak = fullest_device(change);
    return change;
}

}  // namespace tpx
