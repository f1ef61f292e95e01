// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/sensitivity.hpp"
#include "lib/cluster/simulation.hpp"
#include "lib/cluster/speed.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace tpx {

int Simulation::usable() const {
    int gpus = 0;
    for (std::size_t host = 0; host < capacity_.size(); ++host) gpus += usable(static_cast<int>(host));
    return gpus;
}

void Simulation::scripted(const ScriptedEvent& event) {
    outdated_ = true;
    ++interventions_;
    event.host != any ? set_host_gpus(event.host, event.gpus.value_or(0)) : set_job(event);
}

void Simulation::set_host_gpus(int host, int gpus) {
    capacity_[host] = gpus;
    const int gone = cluster_.hosts[host].gpus - gpus;
    pool_.withhold(host, gone);
    soon_.withhold(host, gone);
    short_hosts_.push_back(host);
}

// Takes from jobs what the hosts owe: first from best-effort jobs, then from the others; of each, from the last to
// arrive first. A job loses at once what all hosts take from it.
void Simulation::take_back() {
    std::map<int, int> owed;
    for (const int host : std::exchange(short_hosts_, {})) owed[host] = soon_.owed(host);
    for (const int id : running_)  // GPUs that jobs stop using soon, which are not asked for again
        for (const GpuShare& part :
             difference_of(difference_of(states_[id].held, states_[id].leaving), states_[id].target.parts))
            if (const auto host = owed.find(part.host); host != owed.end()) host->second -= part.gpus;
    for (const bool guaranteed : {false, true}) {
        const std::vector<int> running = running_;
        for (auto id = running.rbegin(); id != running.rend(); ++id) {
            if (jobs_[*id].guaranteed != guaranteed) continue;
            const std::vector<GpuShare>& held = states_[*id].target.parts;
            std::vector<GpuShare> taken;
            for (const GpuShare& part : held) {
                const auto host = owed.find(part.host);
                if (host == owed.end() || host->second <= 0) continue;
                taken.push_back({part.host, std::min(part.gpus, host->second)});
                host->second -= taken.back().gpus;
            }
            if (!taken.empty()) cut(*id, difference_of(held, taken));
        }
    }
}

// Leaves a running job `parts` of its GPUs if the policy may resize it and it can run on them. Otherwise stops it.
void Simulation::cut(int id, std::vector<GpuShare> parts) {
    const TraceJob& job = jobs_[id];
    Grant grant{std::move(parts)};
    const int gpus = grant.gpus();
    bool possible = resizes_ && gpus >= job.least && gpus <= job.most && !(background() && changing(id));
    if (possible) {
        grant.plan = plan_for(job, grant, cluster_, freedom_);
        possible = job.speed->rate(grant, cluster_) > 0;
    }
    possible ? change(id, std::move(grant)) : stop(id);
}

void Simulation::set_job(const ScriptedEvent& event) {
    const int id = event.job;
    if (results_.jobs[id].finish != never) return;
    TraceJob& job = own_jobs_[static_cast<std::size_t>(id)];
    job.gpus = event.gpus.value_or(job.gpus);
    job.least = event.least.value_or(job.least);
    job.most = event.most.value_or(job.most);
    if (event.gpus && !job.kinds.empty()) find_kinds(job, cluster_);
    if (event.cpus) set_cpus(id, *event.cpus);
    const Grant& held = states_[id].target;
    if (held.parts.empty()) return;
    if (held.gpus() > job.most)
        cut(id, GpuPool::part_of(held, job.most).parts);
    else if (held.gpus() < job.least)
        stop(id);
}

// Step times that are predicted depend on cores.
void Simulation::set_cpus(int id, double cpus) {
    TraceJob& job = own_jobs_[static_cast<std::size_t>(id)];
    State& state = states_[id];
    const double more = (cpus - job.cpus) * state.cpu_share;
    pool_.add_cpus(state.held, more);
    soon_.add_cpus(difference_of(state.held, state.leaving), more);
    job.cpus = cpus;
    if (auto speed = job.speed->with_cpus(cpus, nullptr)) job.speed = std::move(speed);
    if (job.truth) {
        if (auto truth = job.truth->with_cpus(cpus, job.speed)) job.truth = std::move(truth);
    }
    if (state.trains.empty()) return;
    account(id);
    train(id, state.trains, state.plan);
}

// The job has trained with the same GPUs and plan for long enough. The model predicts it with all its cores.
void Simulation::observed(int id) {
    const State& state = states_[id];
    if (state.trains.empty() || state.changing) return;
    const double share = state.cpu_share < 1 ? std::pow(state.cpu_share, jobs_[id].cpu_scaling) : 1;
    if (jobs_[id].speed->observe({state.trains, state.plan}, state.rate / share)) outdated_ = true;
}

}  // namespace tpx
