// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/simulation.hpp"

#include <map>
#include <vector>

namespace tpx {

/// The grants that a policy considers. Nothing happens to the simulation, so that a policy can try a decision, drop it,
/// and carry out the last one. GPUs that are on their way back count as free.
class GrantDraft {
public:
    /// `simulation` must outlive the draft and its copies.
    explicit GrantDraft(const Simulation& simulation);

    const Simulation& simulation() const { return *simulation_; }
    const GpuPool& pool() const { return pool_; }
    /// What the job would hold; without parts for a job that would wait.
    const Grant& grant(int id) const;
    bool runs(int id) const { return !grant(id).parts.empty(); }
    /// The most GPUs that the job may hold by its own limit and its tenant's quota.
    int most(int id) const;
    /// Gives the job `grant` in place of what it has; a grant without parts stops it.
    void set(int id, Grant grant);
    /// The jobs whose grants were set.
    const std::map<int, Grant>& changed() const { return changed_; }

private:
    void charge(int id, int gpus);

    const Simulation* simulation_;
    GpuPool pool_;
    std::map<int, Grant> changed_;
    std::vector<int> used_;  // GPUs of each tenant's guaranteed jobs
};

}  // namespace tpx
