// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/policies/rubick_rates.hpp"

#include "lib/cluster/speed.hpp"

#include <algorithm>

namespace tpx {

// What jobs with the same rates share.
const void* RubickRates::family(const TraceJob& job) const {
    return freedom_ == Freedom::plans && job.speed->family() ? job.speed->family() : &job;
}

const Sensitivity& RubickRates::curve(const Simulation& simulation, int id) {
    const TraceJob& job = simulation.job(id);
    const void* key = family(job);
    const int all = simulation.cluster().gpus();
    const int most = key == &job ? std::min(job.most, all) : all;
    const auto found = curves_.find(key);
    if (found != curves_.end()) return found->second;
    return curves_.try_emplace(key, job, simulation.cluster(), freedom_, most).first->second;
}

// The fewest GPUs, up to those it asks for, with which a job has `rate`.
int RubickRates::fewest(const Simulation& simulation, int id, double rate) {
    const TraceJob& job = simulation.job(id);
    if (!resources_) return job.gpus;
    const Sensitivity& is = curve(simulation, id);
    for (int gpus = job.least; gpus < job.gpus; ++gpus)
        if (is.rate(gpus) >= rate) return gpus;
    return job.gpus;
}

RubickRates::Facts RubickRates::facts(const Simulation& simulation, int id) {
    if (facts_.size() <= static_cast<std::size_t>(id)) facts_.resize(static_cast<std::size_t>(id) + 1);
    Facts& is = facts_[static_cast<std::size_t>(id)];
    if (is.start > 0) return is;
    const TraceJob& job = simulation.job(id);
    if (!empty_) empty_.emplace(simulation.cluster());
    is.asked = full_rate(job, simulation.cluster(), *empty_);
    if (!(is.asked > 0)) is.asked = curve(simulation, id).rate(std::min(job.gpus, curve(simulation, id).most()));
    if (!(is.asked > 0)) is.asked = 1;  // gains are divided by it
    // With less than half of its speed a best-effort job would be slow for long, as changes are rare.
    is.start = fewest(simulation, id, job.guaranteed ? is.asked : is.asked / 2);
    is.need = job.guaranteed ? is.start : 0;
    return is;
}

double RubickRates::rate(const Simulation& simulation, int id, const Grant& grant) {
    const TraceJob& job = simulation.job(id);
    const auto compute = [&] {
        Grant with = grant;
        with.plan = plan_for(job, grant, simulation.cluster(), freedom_);
        return job.speed->rate(with, simulation.cluster());
    };
    if (!job.speed->family()) return compute();
    const auto [entry, is_new] = rates_.try_emplace({family(job), shape_of(grant)});
    if (is_new) entry->second = compute();
    return entry->second;
}

void RubickRates::forget_rates() {
    curves_.clear();
    facts_.clear();
    rates_.clear();
}

}  // namespace tpx
