// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/in_order.hpp"
#include "lib/cluster/policies.hpp"

#include <algorithm>

namespace tpx {
namespace {

// The queue in order of priority, then arrival; who does not fit holds up all behind it. Running jobs stay.
class Priority final : public Policy {
public:
    void schedule(Simulation& simulation) override {
        std::vector<int> waiting = simulation.waiting();
        std::ranges::stable_sort(waiting, std::greater{}, [&](int id) { return simulation.job(id).priority; });
        start_in_order(simulation, waiting);
    }
};

}  // namespace

std::unique_ptr<Policy> make_priority() { return std::make_unique<Priority>(); }

}  // namespace tpx
