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

Prediction prediction_of(const Change& change, const std::optional<StorageBytes>& stored) {
    const bool shared = change.state == StateIn::shared;
    if (stored && shared) return predict(change.hosts, storage_loads(change.hosts, stored->read, stored->written));
    if (shared && !change.is_mixed())
        return predict(change.hosts, reading_loads(change.parcels, change.placement, change.hosts));
    return predict(change.hosts, change.relocation.hosts,
                   change.state == StateIn::stores ? RankMemory::host : RankMemory::device);
}

PeakMemory fullest_device(const Change& change) {
    const std::vector<PeakMemory> peaks = peak_memory(change.parcels, change.hosts, change.old_ranks, change.placement,
                                                      change.relocation, change.held_before, change.held_after);
    return *std::ranges::max_element(peaks, {}, [&](const PeakMemory& peak) {
        return static_cast<double>(peak.peak()) - change.hosts[peak.host].device_memory.value_or(0);
    });
}

}  // namespace

std::vector<std::uint64_t> bytes_before(const Parcels& parcels) {
    return bytes_of(parcels, parcels.holders, &Parcel::holders, parcels.old_ranks);
}

std::vector<std::uint64_t> bytes_after(const Parcels& parcels) {
    return bytes_of(parcels, parcels.needers, &Parcel::needers, parcels.new_ranks);
}

bool Change::is_mixed() const {
    const bool is_seated = std::ranges::any_of(old_ranks, [](const Seat& seat) { return seat.host >= 0; });
    return state == StateIn::shared && is_seated && relocation.total.storage > 0;
}

Change make_change(Parcels parcels, std::vector<Host> hosts, std::vector<Seat> old_ranks, ChangeOptions options) {
    Change change{.state = options.state,
                  .hosts = std::move(hosts),
                  .old_ranks = std::move(old_ranks),
                  .parcels = std::move(parcels)};
    change.held_before = options.held_before.empty() ? bytes_before(change.parcels) : std::move(options.held_before);
    change.held_after = options.held_after.empty() ? bytes_after(change.parcels) : std::move(options.held_after);
    change.placement = place(change.parcels, change.hosts, change.old_ranks, options.pinned);
    change.relocation = options.in_rounds ? relocate(change.parcels, change.hosts, change.old_ranks, change.placement,
                                                     change.state, options.may_read, options.window)
                                          : relocate_without_rounds(change.parcels, change.hosts, change.old_ranks,
                                                                    change.placement, change.state, options.may_read);
    change.prediction = prediction_of(change, options.stored);
    if (change.state == StateIn::memory && options.in_rounds) change.peak = fullest_device(change);
    return change;
}

}  // namespace tpx
