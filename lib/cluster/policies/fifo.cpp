// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/job_order.hpp"
#include "lib/cluster/policies.hpp"

namespace tpx {
namespace {

// Strictly in order of arrival: a job that does not fit blocks all later jobs. A job that only exceeds its tenant's
// quota blocks none.
class Fifo final : public Policy {
public:
    void schedule(Simulation& simulation) override {
        const std::vector<int> waiting = simulation.waiting();
        start_in_order(simulation, waiting);
    }
};

}  // namespace

std::unique_ptr<Policy> make_fifo() { return std::make_unique<Fifo>(); }

}  // namespace tpx
