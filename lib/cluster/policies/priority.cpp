// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/policies.hpp"
#include "lib/cluster/simulation.hpp"

#include <algorithm>

namespace tpx {
namespace {

// The queue in order of priority, then arrival; who does not fit holds up all behind it. Running jobs stay.
class Priority final : public Policy {
public:
    void schedule(Simulation& simulation) override {
        std::vector<int> waiting = simulation.waiting();
        std::ranges::stable_sort(waiting, std::greater{}, [&](int id) { return simulation.job(id).priority; });
        for (const int id : waiting) {
            const int gpus = simulation.job(id).gpus;
            if (!simulation.within_quota(id, gpus)) continue;
            auto grant = simulation.place(id, gpus);
            if (!grant) return;
            simulation.start(id, std::move(*grant));
        }
    }
};

}  // namespace

std::unique_ptr<Policy> make_priority() { return std::make_unique<Priority>(); }

}  // namespace tpx
