// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/sensitivity.hpp"

#include <algorithm>

namespace tpx {
namespace {

constexpr double least_gain = 1.01;  // what more GPUs must bring to be of use

}  // namespace

Grant packed_grant(const TraceJob& job, const Cluster& cluster, int gpus) {
    Grant grant;
    const int kind = job.kind == any ? cluster.hosts[0].kind : job.kind;
    for (std::size_t host = 0; host < cluster.hosts.size() && gpus > 0; ++host) {
        if (cluster.hosts[host].kind != kind) continue;
        const int here = std::min(gpus, cluster.hosts[host].gpus);
        if (here > 0) grant.parts.push_back({static_cast<int>(host), here});
        gpus -= here;
    }
    return gpus > 0 ? Grant{} : grant;
}

int plan_for(const TraceJob& job, const Grant& grant, const Cluster& cluster, Freedom freedom) {
    return freedom == Freedom::none ? 0 : job.speed->best_plan(grant, cluster, freedom == Freedom::resources);
}

Sensitivity::Sensitivity(const TraceJob& job, const Cluster& cluster, Freedom freedom, int most)
    : rates_(most + 1), useful_(most + 1) {
    for (int gpus = 1; gpus <= most; ++gpus) {
        rates_[gpus] = rates_[gpus - 1];
        useful_[gpus] = useful_[gpus - 1];
        Grant grant = packed_grant(job, cluster, gpus);
        if (grant.parts.empty()) continue;
        grant.plan = plan_for(job, grant, cluster, freedom);
        const double rate = job.speed->rate(grant, cluster);
        if (rate > rates_[gpus] * least_gain) rates_[gpus] = rate, useful_[gpus] = gpus;
    }
}

std::pair<int, double> Sensitivity::step_up(int gpus, int limit) const {
    std::pair<int, double> best{gpus, 0};
    for (int more = gpus + 1; more <= std::min(limit, most()); ++more) {
        const double slope = (rates_[more] - rates_[gpus]) / (more - gpus);
        if (slope > best.second * (1 + 1e-9)) best = {useful_[more], slope};
    }
    return best;
}

}  // namespace tpx
