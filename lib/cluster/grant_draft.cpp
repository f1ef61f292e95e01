// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/grant_draft.hpp"

#include <algorithm>
#include <utility>

namespace tpx {

GrantDraft::GrantDraft(const Simulation& simulation)
    : simulation_{&simulation}, pool_{simulation.pool_after_releases()}, used_(simulation.cluster().tenants.size()) {
    if (used_.empty()) return;
    for (const int id : simulation.running()) charge(id, simulation.grant(id).gpus());
}

const Grant& GrantDraft::grant(int id) const {
    const auto found = changed_.find(id);
    return found == changed_.end() ? simulation_->grant(id) : found->second;
}

int GrantDraft::most(int id) const {
    const TraceJob& job = simulation_->job(id);
    if (job.tenant == any || !job.guaranteed) return job.most;
    const int left = simulation_->cluster().tenants[job.tenant].quota - used_[job.tenant];
    return std::min(job.most, grant(id).gpus() + left);
}

void GrantDraft::charge(int id, int gpus) {
    const TraceJob& job = simulation_->job(id);
    if (job.tenant != any && job.guaranteed) used_[job.tenant] += gpus;
}

void GrantDraft::set(int id, Grant grant) {
    const GpuRequirements needs = simulation_->needs(id);
    Grant& now = changed_.try_emplace(id, simulation_->grant(id)).first->second;
    charge(id, grant.gpus() - now.gpus());
    pool_.give(needs, now.parts);
    pool_.take(needs, grant.parts);
    now = std::move(grant);
}

}  // namespace tpx
