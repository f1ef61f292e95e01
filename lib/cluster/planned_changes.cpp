// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/planned_changes.hpp"

#include "lib/change/change.hpp"
#include "lib/change/cost.hpp"
#include "lib/change/spread.hpp"

#include <algorithm>
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

PlannedChanges::PlannedChanges(const Cluster& cluster, std::vector<Host> hosts, StateGoes goes, Time restart)
    : goes_{goes}, restart_{restart} {
    for (std::size_t i = 0; i < cluster.hosts.size(); ++i) {
        auto same = std::ranges::find_if(rates_, [&](const Host& host) { return same_rates(host, hosts[i]); });
        if (same == rates_.end()) same = rates_.insert(rates_.end(), hosts[i]);
        numbers_.push_back(static_cast<int>(same - rates_.begin()));
    }
}

// Those that had most first, in their order; then those that had none, those that get most first.
std::vector<PlannedChanges::Place> PlannedChanges::places_of(const Grant& from, const Grant& to) const {
    std::map<int, Place> by_host;
    for (const GpuShare& part : from.parts) by_host[part.host].before = part.gpus;
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

// Old ranks that lose their GPU are still on their host, which holds what they have.
PlannedChanges::Moved PlannedChanges::move(const JobModel& model, const Layout& from, const Layout& to,
                                           const std::vector<Place>& places) const {
    std::vector<Host> hosts;
    std::vector<Seat> seats;
    std::int32_t device = 0;
    for (const Place& place : places) {
        hosts.push_back(rates_[static_cast<std::size_t>(place.rates)]);
        hosts.back().gpus = place.after;
        const auto host = static_cast<std::int32_t>(hosts.size() - 1);
        for (int i = 0; i < place.before; ++i) seats.push_back({host, i < place.after ? device + i : -1});
        device += place.after;
    }
    const Change change = make_change(spread(model.state, from, to), std::move(hosts), std::move(seats), {});
    return {change.prediction.seconds(), static_cast<double>(change.relocation.total.other_host)};
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
    const std::vector<Seat> nowhere(static_cast<std::size_t>(to.ranks()));
    const Change change = make_change(spread(model.state, to, to), std::move(hosts), nowhere,
                                      {.state = StateIn::shared, .pinned = true, .may_read = true});
    return {change.prediction.seconds(), static_cast<double>(change.relocation.total.storage)};
}

ChangeCost PlannedChanges::cost(const TraceJob& job, const Grant& from, const Grant& to, bool storage) const {
    const JobModel& model = *job.model_state;
    const std::vector<Place> places = places_of(from, to);
    const Layout before = from.parts.empty() ? Layout{} : layout_of(job, from), after = layout_of(job, to);
    const auto [entry, is_new] =
        known_.try_emplace(Key{&model, from.parts.empty() ? "" : to_string(before), to_string(after), places, storage});
    Moved& moved = entry->second;
    if (is_new && !storage) moved = move(model, before, after, places);
    if (is_new && storage) {
        const Moved written = write(model, places), back = read(model, after, places);
        moved = {written.seconds + back.seconds, written.bytes + back.bytes};
    }
    return {restart_ + time_of(moved.seconds), moved.bytes};
}

ChangeCost PlannedChanges::change(const TraceJob& job, const Grant& from, const Grant& to) const {
    return cost(job, from, to, goes_ == StateGoes::by_storage);
}

ChangeCost PlannedChanges::resume(const TraceJob& job, const Grant& from, const Grant& to) const {
    return cost(job, from, to, true);
}

}  // namespace tpx
