// SPDX-License-Identifier: Apache-2.0
#include "lib/change/change.hpp"

#include "lib/core/error.hpp"

#include <algorithm>

namespace tpx {
namespace {

/// The bytes of each rank: the sum over all parcels whose `set` contains the rank.
std::vector<std::uint64_t> bytes_of(const Parcels& parcels, const RankSets& sets, std::uint32_t Parcel::*set,
                                    int ranks) {
    std::vector<std::uint64_t> bytes(static_cast<std::size_t>(ranks));
    for (const Parcel& parcel : parcels.parcels) {
        for (std::int32_t rank : sets[parcel.*set]) bytes[static_cast<std::size_t>(rank)] += parcel.bytes;
    }
    return bytes;
}

Prediction prediction_of(const Change& change, const std::optional<StorageBytes>& stored) {
    const bool shared = change.state == StateMedium::shared;
    if (stored && shared) return predict_storage(change.hosts, stored->read, stored->written);
    if (shared && !change.is_mixed())
        return predict(change.hosts, reading_loads(change.parcels, change.placement, change.hosts));
    return predict(change.hosts, change.relocation,
                   change.state == StateMedium::stores ? RankMemory::host : RankMemory::device);
}

PeakMemory fullest_device(const Change& change) {
    const std::vector<PeakMemory> peaks = peak_memory(change.parcels, change.hosts, change.old_ranks, change.placement,
                                                      change.relocation, change.held_before, change.held_after);
    return *std::ranges::max_element(peaks, {}, [&](const PeakMemory& peak) {
        return static_cast<double>(peak.peak()) - change.hosts[peak.host].device_memory.value_or(0);
    });
}

Relocation relocated(const Change& change, const ChangeOptions& options, bool in_rounds) {
    return in_rounds ? relocate(change.parcels, change.hosts, change.old_ranks, change.placement, change.state,
                                options.may_read, options.window)
                     : relocate_without_rounds(change.parcels, change.hosts, change.old_ranks, change.placement,
                                               change.state, options.may_read);
}

/// Replaces the placement with the fewest bytes by the fastest one that is found. Changes through shared storage file
/// by file take the same time with every placement.
void choose_fast_placement(Change& change, const ChangeOptions& options) {
    if (options.stored && change.state == StateMedium::shared) return;
    const auto seconds_of = [&](const Placement& placement) {
        change.placement = placement;
        change.relocation = relocated(change, options, false);
        return prediction_of(change, options.stored).seconds();
    };
    const Placement start = change.placement;
    seconds_of(start);
    const StateMedium state = change.is_mixed() ? StateMedium::memory : change.state;
    change.by_time = place_for_time(change.parcels, change.hosts, change.old_ranks, state, start, seconds_of);
    change.placement = std::move(change.by_time->placement);
}

void place_whole_groups(Change& change) {
    std::optional<GroupPlacement> found =
        place_groups(change.parcels, change.hosts, change.old_ranks, change.placement);
    if (!found)
        throw Error{Exit::usage, "these hosts cannot take {} ranks in whole TP groups of {} (--placement groups)",
                    change.parcels.new_ranks, change.placement.group};
    change.placement = std::move(found->placement);
    change.group_bound = found->bound;
}

void choose_placement(Change& change, ChangeOptions& options) {
    if (options.placement) {
        change.placement = std::move(*options.placement);
        return;
    }
    change.placement = place(change.parcels, change.hosts, change.old_ranks, options.pinned, options.group);
    if (options.objective == Objective::time) choose_fast_placement(change, options);
    if (options.placement_class == PlacementClass::groups) place_whole_groups(change);
}

}  // namespace

std::vector<std::uint64_t> bytes_before(const Parcels& parcels) {
    return bytes_of(parcels, parcels.holders, &Parcel::holders, parcels.old_ranks);
}

std::vector<std::uint64_t> bytes_after(const Parcels& parcels) {
    return bytes_of(parcels, parcels.needers, &Parcel::needers, parcels.new_ranks);
}

bool Change::is_mixed() const {
    const bool has_location =
        std::ranges::any_of(old_ranks, [](const RankLocation& location) { return location.host >= 0; });
    return state == StateMedium::shared && has_location && relocation.total.storage > 0;
}

Change make_change(Parcels parcels, std::vector<Host> hosts, std::vector<RankLocation> old_ranks,
                   ChangeOptions options) {
    Change change{.state = options.state,
                  .hosts = std::move(hosts),
                  .old_ranks = std::move(old_ranks),
                  .parcels = std::move(parcels)};
    change.held_before = options.held_before.empty() ? bytes_before(change.parcels) : std::move(options.held_before);
    change.held_after = options.held_after.empty() ? bytes_after(change.parcels) : std::move(options.held_after);
    change.objective = options.objective;
    choose_placement(change, options);
    change.relocation = relocated(change, options, options.in_rounds);
    change.prediction = prediction_of(change, options.stored);
    change.sources = sources_of(change.parcels, change.hosts, change.old_ranks,
                                {.hosts = change.state != StateMedium::shared || change.is_mixed(),
                                 .storage = change.state == StateMedium::shared},
                                options.storage_iteration);
    require_one_iteration(change.sources, change.hosts);
    if (change.state == StateMedium::memory && options.in_rounds) change.peak = fullest_device(change);
    return change;
}

}  // namespace tpx
