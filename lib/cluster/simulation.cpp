// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/simulation.hpp"

#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace tpx {
namespace {

int count(std::span<const GpuShare> parts) {
    int gpus = 0;
    for (const GpuShare& part : parts) gpus += part.gpus;
    return gpus;
}

void insert(std::vector<int>& sorted, int id) { sorted.insert(std::ranges::lower_bound(sorted, id), id); }

void erase(std::vector<int>& sorted, int id) {
    const auto found = std::ranges::lower_bound(sorted, id);
    assert(found != sorted.end() && *found == id);
    sorted.erase(found);
}

}  // namespace

Simulation::Simulation(const Cluster& cluster, std::span<const TraceJob> jobs, const SimulationRules& rules)
    : cluster_{cluster},
      jobs_{jobs},
      rules_{rules},
      pool_{cluster},
      soon_{cluster},
      states_(jobs.size()),
      used_(cluster.tenants.size()),
      down_(cluster.hosts.size()) {
    if (!rules.script.empty()) {
        own_jobs_.assign(jobs.begin(), jobs.end());
        jobs_ = own_jobs_;
    }
    for (const ClusterHost& host : cluster.hosts) capacity_.push_back(host.gpus);
    for (std::size_t i = 0; i < rules.script.size(); ++i)
        push(rules.script[i].time, Kind::scripted, static_cast<int>(i));
    results_.jobs.resize(jobs.size());
    for (std::size_t id = 0; id < jobs.size(); ++id) {
        states_[id].remaining = jobs[id].work;
        results_.jobs[id].arrival = jobs[id].arrival;
    }
    for (const Outage& outage : rules.outages) {
        push(outage.begin, Kind::down, outage.host);
        if (outage.end != never) push(outage.end, Kind::up, outage.host);
    }
}

double Simulation::remaining(int id) const {
    const State& state = states_[id];
    return state.remaining - state.rate * static_cast<double>(now_ - state.since);
}

double Simulation::attained(int id) const {
    return results_.jobs[id].held + static_cast<double>(now_ - states_[id].since) * count(states_[id].held);
}

bool Simulation::within_quota(int id, int gpus) const {
    const TraceJob& job = jobs_[id];
    if (job.tenant == any || !job.guaranteed) return true;
    return used_[job.tenant] + gpus - states_[id].target.gpus() <= cluster_.tenants[job.tenant].quota;
}

std::optional<Grant> Simulation::place(int id, int gpus, double cpu_share) const {
    if (!within_quota(id, gpus)) return {};
    const bool ran = results_.jobs[id].start != never;
    return pool_.place(ran ? needs(id) : GpuRequirements{jobs_[id], cpu_share}, gpus);
}

// Microseconds for the steps that are left, rounded up; what is left of sums that came out as whole microseconds but
// for the last digits of a double is no microsecond more.
double Simulation::steps_time(int id, double rate) const {
    constexpr double digits = 1e-13, most = 0.1;
    return std::max(0.0, std::ceil(states_[id].remaining / rate - std::min(digits * jobs_[id].work / rate, most)));
}

Time Simulation::time_needed(int id, const Grant& grant) const {
    const double rate = jobs_[id].speed->rate(grant, cluster_);
    if (!(rate > 0)) return never / 2;
    return start_cost(id, grant).delay + static_cast<Time>(std::min(4e18, steps_time(id, rate)));
}

Time Simulation::expected_finish(int id) const {
    const State& state = states_[id];
    if (state.finish != never) return state.finish;
    double rate = jobs_[id].speed->rate(state.target, cluster_);
    if (!(rate > 0)) return never;
    if (state.cpu_share < 1) rate *= std::pow(state.cpu_share, jobs_[id].cpu_scaling);
    return std::max(now_, state.ready) + static_cast<Time>(std::min(4e18, steps_time(id, rate)));
}

void Simulation::charge(int id, int gpus) {
    if (jobs_[id].tenant != any && jobs_[id].guaranteed) used_[jobs_[id].tenant] += gpus;
}

// Brings what is known about the job up to now.
void Simulation::account(int id) {
    State& state = states_[id];
    JobResult& result = results_.jobs[id];
    const auto time = static_cast<double>(now_ - state.since);
    const int held = count(state.held);
    if (time > 0 && held > 0) {
        result.held += held * time;
        result.trained += count(state.trains) * time;
        result.worked += (state.trains.empty() ? state.target.gpus() : count(state.trains)) * time;
        if (state.trains.empty()) result.lost += held * time;
        state.remaining = std::max(0.0, state.remaining - state.rate * time);
        if (rules_.checkpoint > 0 && !state.trains.empty()) count_unsaved(id);
        if (rules_.segments) add_segments(id);
    }
    state.since = now_;
}

/// Records the GPUs that a job has held since its last change: those that trained, and those that did not train yet or
/// no longer.
void Simulation::add_segments(int id) {
    const State& state = states_[id];
    const auto add = [&](std::vector<GpuShare> parts, bool trains) {
        if (!parts.empty())
            results_.segments.push_back({id, state.since, now_, {std::move(parts), state.target.plan}, trains});
    };
    add(state.trains, true);
    add(difference_of(state.held, state.trains), false);
}

void Simulation::train(int id, std::vector<GpuShare> parts, int plan) {
    State& state = states_[id];
    state.trains = std::move(parts);
    const TraceJob& job = jobs_[id];
    state.plan = job.speed->plan_number({state.trains, plan});
    state.rate = (job.truth ? job.truth : job.speed)->rate({state.trains, state.plan}, cluster_);
    if (state.cpu_share < 1) state.rate *= std::pow(state.cpu_share, job.cpu_scaling);
    ++state.period;
    if (state.finish != never) finishes_.erase({state.finish, id});
    state.finish = never;
    if (!(state.rate > 0)) return;
    const double time = steps_time(id, state.rate);
    constexpr double longest = 4e18;
    if (time + static_cast<double>(now_) > longest)
        throw failure("job '{}' would not finish in 100,000 years", job.name);
    state.finish = now_ + static_cast<Time>(time);
    finishes_.insert({state.finish, id});
    if (rules_.observe > 0 && job.truth) push(now_ + rules_.observe, Kind::observed, id);
}

// The job trains with none of its GPUs.
void Simulation::idle(int id) {
    State& state = states_[id];
    if (state.finish != never) finishes_.erase({state.finish, id});
    state.finish = never;
    state.rate = 0;
    state.trains.clear();
    ++state.period;
}

void Simulation::set_changing(int id, bool changing) {
    changes_ += int(changing) - int(states_[id].changing);
    states_[id].changing = changing;
}

void Simulation::push(Time time, Kind kind, int subject, std::vector<GpuShare> parts) {
    if (is_timer(kind)) ++timers_;
    std::uint32_t version = 0;
    if (is_timer(kind)) version = kind == Kind::observed ? states_[subject].period : states_[subject].version;
    events_.push({time, kind, subject, version, std::move(parts), order_++});
}

// Has the job train as it was told after `delay`.
void Simulation::make_ready(int id, Time delay) {
    states_[id].ready = now_ + delay;
    states_[id].arrived = now_ + delay - std::min(delay, rules_.costs ? rules_.costs->restart() : 0);
    delay > 0 ? push(now_ + delay, Kind::ready, id) : ready(id);
}

void Simulation::check_limits(int id, const Grant& grant) const {
    const TraceJob& job = jobs_[id];
    if (const int gpus = grant.gpus(); gpus < job.least || gpus > job.most)
        throw failure("job '{}' was given {} but may have {} to {}; please report this", job.name,
                      counted(std::uint64_t(gpus), "GPU"), job.least, job.most);
}

void Simulation::start(int id, Grant grant, double cpu_share) {
    check_limits(id, grant);
    assert(!grant.parts.empty() && within_quota(id, grant.gpus()));
    account(id);
    erase(waiting_, id);
    insert(running_, id);
    State& state = states_[id];
    if (results_.jobs[id].start == never) state.cpu_share = cpu_share;
    pool_.take(needs(id), grant.parts);
    soon_.take(needs(id), grant.parts);
    charge(id, grant.gpus());
    state.held = sum_of(state.held, grant.parts);
    state.target = std::move(grant);
    ++state.version;
    ++actions_;
    JobResult& result = results_.jobs[id];
    if (result.start == never) result.start = now_;
    set_changing(id, true);
    const ChangeCost cost = start_cost(id, state.target);
    state.stored = !state.in_memory;
    if (result.stops > 0) result.paused += cost.delay;
    result.moved += cost.bytes;
    make_ready(id, cost.delay);
}

void Simulation::change(int id, Grant grant) {
    State& state = states_[id];
    if (grant == state.target) return;
    check_limits(id, grant);
    account(id);
    const std::vector<GpuShare> more = difference_of(grant.parts, state.target.parts);
    const std::vector<GpuShare> fewer = difference_of(state.target.parts, grant.parts);
    const ChangeCost cost = change_cost(id, grant);
    const Grant before = std::exchange(state.target, std::move(grant));
    charge(id, count(more));
    pool_.take(needs(id), more);
    soon_.take(needs(id), more);
    state.held = sum_of(state.held, more);
    ++state.version;
    ++actions_;
    ++results_.jobs[id].changes;
    set_changing(id, true);
    if (rules_.delays.background && before.plan == state.target.plan) {
        assert(more.empty() || fewer.empty());
        return change_behind(id, fewer);
    }
    if (!state.trains.empty()) state.stored = !rules_.costs || rules_.costs->stores();
    keep_state(id, before.plan);
    idle(id);
    if (!fewer.empty()) give_back(id, fewer);
    results_.jobs[id].paused += cost.delay;
    results_.jobs[id].moved += cost.bytes;
    make_ready(id, cost.delay);
}

// The job trains on while it is changed, or goes on starting.
void Simulation::change_behind(int id, std::vector<GpuShare> fewer) {
    State& state = states_[id];
    const bool starting = state.trains.empty();
    if (fewer.empty()) return make_ready(id, std::max(rules_.delays.grow, starting ? state.ready - now_ : 0));
    if (starting) {
        give_back(id, std::move(fewer));
        return make_ready(id, state.ready - now_);
    }
    if (rules_.delays.shrink > 0) return push(now_ + rules_.delays.shrink, Kind::shrunk, id, std::move(fewer));
    ready(id);
    give_back(id, std::move(fewer));
}

// It waits again.
void Simulation::halt(int id) {
    leave(id);
    erase(running_, id);
    insert(waiting_, id);
    ++results_.jobs[id].stops;
    ++actions_;
}

void Simulation::wake(Time time) {
    assert(time > now_);
    wake_ = std::min(wake_, round_after(time));
}

// All that the job holds and that is not on its way already is given back.
void Simulation::leave(int id) {
    account(id);
    State& state = states_[id];
    idle(id);
    set_changing(id, false);
    ++state.version;
    state.target = {};
    give_back(id, difference_of(state.held, state.leaving));
}

void Simulation::give_back(int id, std::vector<GpuShare> parts) {
    State& state = states_[id];
    soon_.give(needs(id), parts);
    for (const GpuShare& part : parts) soon_.settle(part.host);
    if (rules_.delays.release == 0) return released(id, parts);
    state.leaving = sum_of(state.leaving, parts);
    ++changes_;
    push(now_ + rules_.delays.release, Kind::released, id, std::move(parts));
}

void Simulation::released(int id, const std::vector<GpuShare>& parts) {
    account(id);
    states_[id].held = difference_of(states_[id].held, parts);
    charge(id, -count(parts));
    pool_.give(needs(id), parts);
    for (const GpuShare& part : parts) pool_.settle(part.host);
    results_.end = std::max(results_.end, now_);
}

void Simulation::ready(int id) {
    account(id);
    begin_training(id);
    train(id, states_[id].target.parts, states_[id].target.plan);
    set_changing(id, false);
}

void Simulation::finish(int id) {
    account(id);
    states_[id].remaining = 0;
    leave(id);
    erase(running_, id);
    results_.jobs[id].finish = now_;
    ++finished_;
}

}  // namespace tpx
