// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/sensitivity.hpp"

#include <algorithm>

namespace tpx {

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

Sensitivity::Sensitivity(const TraceJob& job, const Cluster& cluster, Freedom freedom, int most) : rates_(most + 1) {
    for (int gpus = 1; gpus <= most; ++gpus) {
        Grant grant = packed_grant(job, cluster, gpus);
        if (grant.parts.empty()) break;
        grant.plan = plan_for(job, grant, cluster, freedom);
        rates_[gpus] = job.speed->rate(grant, cluster);
    }
}

std::vector<int> Sensitivity::useful(int from, int to, double rate) const {
    std::vector<int> counts;
    for (int gpus = std::max(1, from); gpus <= std::min(to, most()); ++gpus) {
        if (rates_[gpus] <= rate * min_gain) continue;
        rate = rates_[gpus];
        counts.push_back(gpus);
    }
    return counts;
}

}  // namespace tpx
