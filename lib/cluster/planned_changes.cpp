// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/planned_changes.hpp"

#include "lib/change/change.hpp"
#include "lib/change/model_parcels.hpp"
#include "lib/change/prediction.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace tpx {
namespace {

bool same_rates(const Host& a, const Host& b) {
    return a.nic == b.nic && a.disk_read == b.disk_read && a.disk_write == b.disk_write && a.memory == b.memory;
}

Layout layout_of(const TraceJob& job, const Grant& grant) {
    const std::string_view chosen = job.speed->plan_name(grant.plan);
    return job.model_state->layout_on(grant.gpus(), chosen.empty() ? job.plan : chosen);
}

double state_bytes(const ModelState& state) {
    double each = 0;
    for (const StateRole& role : state.roles) each += static_cast<double>(itemsize(role.dtype));
    return each * static_cast<double>(parameters(state));
}

}  // namespace

PlannedChanges::PlannedChanges(const Cluster& cluster, std::vector<Host> hosts, StateRoute goes, Time restart)
    : goes_{goes}, restart_{restart} {
    for (std::size_t i = 0; i < cluster.hosts.size(); ++i) {
        auto same = std::ranges::find_if(rates_, [&](const Host& host) { return same_rates(host, hosts[i]); });
        if (same == rates_.end()) same = rates_.insert(rates_.end(), hosts[i]);
        numbers_.push_back(static_cast<int>(same - rates_.begin()));
    }
}

// Those that had most first, in their order; then those that had none, those that get most first.
std::vector<PlannedChanges::Place> PlannedChanges::places_of(const Grant& from, const Grant& to,
                                                             std::span<const int> lost) const {
    std::map<int, Place> by_host;
    for (const GpuShare& part : from.parts) by_host[part.host].before = part.gpus;
    for (const int host : lost) by_host[host].lost = true;
    for (const GpuShare& part : to.parts) by_host[part.host].after = part.gpus;
    std::vector<Place> places;
    for (auto& [host, place] : by_host) {
        place.rates = numbers_[static_cast<std::size_t>(host)];
        places.push_back(place);
    }
    std::ranges::stable_sort(places, std::greater{}, [](const Place& p) {
        return std::pair{p.before, p.before > 0 ? 0 : p.after};
    });
    return places;
}

// Old ranks that lose their GPU are still on their host, which holds what they have, unless the host was lost.
PlannedChanges::Moved PlannedChanges::move(const JobModel& model, const Layout& from, const Layout& to,
                                           const std::vector<Place>& places) const {
    std::vector<Host> hosts;
    std::vector<RankLocation> rank_locations;
    std::int32_t device = 0;
    for (const Place& place : places) {
        hosts.push_back(rates_[static_cast<std::size_t>(place.rates)]);
        hosts.back().gpus = place.after;
        const auto host = static_cast<std::int32_t>(hosts.size() - 1);
        for (int i = 0; i < place.before; ++i)
            rank_locations.push_back(place.lost ? RankLocation{}
                                                : RankLocation{host, i < place.after ? device + i : -1});
        device += place.after;
    }
    const Change change =
        make_change(model_parcels(model.state, from, to), std::move(hosts), std::move(rank_locations), {});
    return {change.prediction.seconds(), static_cast<double>(change.relocation.total.other_host)};
}

// New ranks are on the hosts in order. Everything goes in and then out through the NIC of one host.
PlannedChanges::Moved PlannedChanges::gather(const JobModel& model, const Layout& from, const Layout& to,
                                             const std::vector<Place>& places) const {
    std::vector<std::size_t> old_hosts, new_hosts;
    for (std::size_t i = 0; i < places.size(); ++i) {
        old_hosts.insert(old_hosts.end(), static_cast<std::size_t>(places[i].before), i);
        new_hosts.insert(new_hosts.end(), static_cast<std::size_t>(places[i].after), i);
    }
    const Parcels parcels = model_parcels(model.state, from, to);
    double bytes = 0;
    for (const Parcel& parcel : parcels.parcels) {
        const auto holders = parcels.holders[parcel.holders], needers = parcels.needers[parcel.needers];
        const bool is_central = std::ranges::any_of(holders, [&](int rank) { return old_hosts[rank] == 0; });
        std::set<std::size_t> receivers;
        for (const int rank : needers) receivers.insert(new_hosts[rank]);
        receivers.erase(0);
        bytes += static_cast<double>(parcel.bytes) * static_cast<double>(receivers.size() + (is_central ? 0 : 1));
    }
    return {bytes / rates_[static_cast<std::size_t>(places[0].rates)].nic.value_or(default_rates.nic), bytes};
}

PlannedChanges::Moved PlannedChanges::write(const JobModel& model, const std::vector<Place>& places) const {
    std::vector<Host> hosts;
    for (const Place& place : places)
        if (place.before > 0) hosts.push_back(rates_[static_cast<std::size_t>(place.rates)]);
    if (hosts.empty()) return {};
    const double bytes = state_bytes(model.state);
    const std::vector<Load> loads = storage_loads(hosts, 0, static_cast<std::uint64_t>(bytes));
    return {predict(hosts, loads).seconds(), bytes};
}

// Each host reads what its ranks need, once.
PlannedChanges::Moved PlannedChanges::read(const JobModel& model, const Layout& to,
                                           const std::vector<Place>& places) const {
    std::vector<Host> hosts;
    for (const Place& place : places) {
        if (place.after == 0) continue;
        hosts.push_back(rates_[static_cast<std::size_t>(place.rates)]);
        hosts.back().gpus = place.after;
    }
    const std::vector<RankLocation> nowhere(static_cast<std::size_t>(to.ranks()));
    const Change change = make_change(model_parcels(model.state, to, to), std::move(hosts), nowhere,
                                      {.state = StateMedium::shared, .pinned = true, .may_read = true});
    return {change.prediction.seconds(), static_cast<double>(change.relocation.total.storage)};
}

ChangeCost PlannedChanges::cost(const TraceJob& job, const Grant& from, const Grant& to, StateRoute goes,
                                std::span<const int> lost) const {
    const JobModel& model = *job.model_state;
    const std::vector<Place> places = places_of(from, to, lost);
    const Layout before = from.parts.empty() ? Layout{} : layout_of(job, from), after = layout_of(job, to);
    const auto [entry, is_new] =
        known_.try_emplace(Key{&model, from.parts.empty() ? "" : to_string(before), to_string(after), places, goes});
    Moved& moved = entry->second;
    if (is_new && goes == StateRoute::directly) moved = move(model, before, after, places);
    if (is_new && goes == StateRoute::centrally) moved = gather(model, before, after, places);
    if (is_new && goes == StateRoute::by_storage) {
        const Moved written = write(model, places), back = read(model, after, places);
        moved = {written.seconds + back.seconds, written.bytes + back.bytes};
    }
    return {restart_ + time_of(moved.seconds), moved.bytes};
}

ChangeCost PlannedChanges::change(const TraceJob& job, const Grant& from, const Grant& to) const {
    return cost(job, from, to, goes_);
}

ChangeCost PlannedChanges::resume(const TraceJob& job, const Grant& from, const Grant& to) const {
    return cost(job, from, to, StateRoute::by_storage);
}

bool PlannedChanges::survives(const TraceJob& job, const Grant& from, std::span<const int> lost) const {
    const std::vector<Place> places = places_of(from, {}, lost);
    std::vector<bool> is_lost;  // by rank
    for (const Place& place : places) is_lost.insert(is_lost.end(), static_cast<std::size_t>(place.before), place.lost);
    const Layout layout = layout_of(job, from);
    const Parcels parcels = model_parcels(job.model_state->state, layout, layout);
    return std::ranges::all_of(parcels.parcels, [&](const Parcel& parcel) {
        const auto holders = parcels.holders[parcel.holders];
        return std::ranges::any_of(holders, [&](int rank) { return !is_lost[rank]; });
    });
}

// Whichever way state goes otherwise, the hosts that are left send it to those that lack it.
ChangeCost PlannedChanges::recover(const TraceJob& job, const Grant& from, std::span<const int> lost,
                                   const Grant& to) const {
    return cost(job, from, to, StateRoute::directly, lost);
}

}  // namespace tpx
