// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/in_order.hpp"

#include <algorithm>
#include <optional>

namespace tpx {
namespace {

bool runs(const Simulation& simulation, int id) { return !simulation.grant(id).parts.empty(); }

// The last running jobs of order[first..] that must go so that `id` fits once they are gone; nothing where that is not
// enough.
std::optional<std::vector<int>> victims_for(const Simulation& simulation, int id, const std::vector<int>& order,
                                            std::size_t first) {
    const TraceJob& job = simulation.job(id);
    GpuPool pool = simulation.soon();
    std::vector<int> victims;
    if (pool.place(job, job.gpus)) return victims;
    for (std::size_t i = order.size(); i-- > first;) {
        if (!runs(simulation, order[i])) continue;
        victims.push_back(order[i]);
        pool.give(simulation.needs(order[i]), simulation.grant(order[i]).parts);
        if (pool.free(job.kind) >= job.gpus && pool.place(job, job.gpus)) return victims;
    }
    return {};
}

}  // namespace

std::vector<int> all_jobs(const Simulation& simulation) {
    std::vector<int> jobs = simulation.waiting();
    jobs.insert(jobs.end(), simulation.running().begin(), simulation.running().end());
    std::ranges::sort(jobs);
    return jobs;
}

std::size_t start_in_order(Simulation& simulation, const std::vector<int>& order) {
    for (std::size_t i = 0; i < order.size(); ++i) {
        const int gpus = simulation.job(order[i]).gpus;
        if (!simulation.within_quota(order[i], gpus)) continue;
        auto grant = simulation.place(order[i], gpus);
        if (!grant) return i;
        simulation.start(order[i], std::move(*grant));
    }
    return order.size();
}

void run_in_order(Simulation& simulation, const std::vector<int>& order) {
    int later = 0;  // GPUs of running jobs that come later in the order
    for (const int id : order) later += simulation.grant(id).gpus();
    for (std::size_t i = 0; i < order.size(); ++i) {
        const int id = order[i];
        const TraceJob& job = simulation.job(id);
        if (runs(simulation, id)) {
            later -= simulation.grant(id).gpus();
            continue;
        }
        if (simulation.soon().free() + later < job.gpus) continue;
        auto grant = simulation.place(id, job.gpus);
        if (!grant && simulation.within_quota(id, job.gpus)) {
            const auto victims = victims_for(simulation, id, order, i + 1);
            if (!victims) continue;
            for (const int victim : *victims) {
                later -= simulation.grant(victim).gpus();
                simulation.stop(victim);
            }
            grant = simulation.place(id, job.gpus);
            if (!grant) return;  // what is on its way is for this job, not for those behind it
        }
        if (grant) simulation.start(id, std::move(*grant));
    }
}

}  // namespace tpx
