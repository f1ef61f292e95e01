// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/in_order.hpp"
#include "lib/cluster/policies.hpp"

namespace tpx {
namespace {

// Strictly in order of arrival: who does not fit holds up all who came later. A job that only its tenant's quota stops
// holds up nobody else.
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
