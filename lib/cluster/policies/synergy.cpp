// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/policies.hpp"
#include "lib/cluster/simulation.hpp"

#include <algorithm>

namespace tpx {
namespace {

// As Mohan et al., "Synergy" (OSDI 2022), orders and packs: first come first served, each job with the GPUs and the
// plan that it requests; jobs that do not fit are skipped. A job that fits only with fewer cores than it requests gets
// an equal share of its hosts' cores per GPU, and the speed that this share allows. Memory is never reduced.
class Synergy final : public Policy {
public:
    void schedule(Simulation& simulation) override {
        const std::vector<int> waiting = simulation.waiting();
        for (const int id : waiting) {
            const TraceJob& job = simulation.job(id);
            if (simulation.pool().free() == 0) return;
            if (simulation.pool().free(job.kind) < job.gpus) continue;
            if (auto grant = simulation.place(id, job.gpus)) {
                simulation.start(id, std::move(*grant));
                continue;
            }
            const double share = equal_share(simulation.cluster(), job);
            if (share >= 1) continue;
            if (auto grant = simulation.place(id, job.gpus, share)) simulation.start(id, std::move(*grant), share);
        }
    }

private:
    // Cores per GPU, as a share of those that `job` requests, if each host divides its cores equally among its GPUs;
    // the least of all hosts.
    static double equal_share(const Cluster& cluster, const TraceJob& job) {
        double share = 1;
        if (job.cpus == 0) return share;
        for (const ClusterHost& host : cluster.hosts)
            if (host.cpus > 0 && host.gpus > 0) share = std::min(share, host.cpus / host.gpus / job.cpus);
        return share;
    }
};

}  // namespace

std::unique_ptr<Policy> make_synergy() { return std::make_unique<Synergy>(); }

}  // namespace tpx
