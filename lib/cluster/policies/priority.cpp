// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/job_order.hpp"
#include "lib/cluster/policies.hpp"

namespace tpx {
namespace {

// The queue in order of priority, then arrival; a job that does not fit blocks all jobs after it. Running jobs are
// not preempted.
class Priority final : public Policy {
public:
    void schedule(Simulation& simulation) override {
        std::vector<int> started = order_.update(simulation);
        started.resize(start_in_order(simulation, started));
        for (const int id : started)
            if (!simulation.grant(id).parts.empty()) order_.remove(simulation, id);
    }

private:
    PriorityOrder order_;
};

}  // namespace

std::unique_ptr<Policy> make_priority() { return std::make_unique<Priority>(); }

}  // namespace tpx
