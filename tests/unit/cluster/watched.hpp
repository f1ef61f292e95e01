// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/policies.hpp"
#include "lib/cluster/simulation.hpp"

#include <functional>
#include <utility>

namespace tpx::test {

/// Plays `jobs` under the policy called `name`, and calls `look` after each of its decisions.
inline SimulationResults play_watched(std::string_view name, const Cluster& cluster, const std::vector<TraceJob>& jobs,
                                      const SimulationRules& rules, std::function<void(const Simulation&)> look) {
    struct Watched final : Policy {
        Watched(std::unique_ptr<Policy> policy, std::function<void(const Simulation&)> look)
            : policy_{std::move(policy)}, look_{std::move(look)} {}
        void schedule(Simulation& simulation) override {
            policy_->schedule(simulation);
            look_(simulation);
        }
        std::unique_ptr<Policy> policy_;
        std::function<void(const Simulation&)> look_;
    } watched{find_policy(name)->make(), std::move(look)};
    return Simulation{cluster, jobs, rules}.run(watched);
}

}  // namespace tpx::test
