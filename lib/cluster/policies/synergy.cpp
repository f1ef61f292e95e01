// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/policies.hpp"
#include "lib/cluster/simulation.hpp"

namespace tpx {
namespace {

// As Mohan et al., "Synergy" (OSDI 2022), orders and packs: first come first served, each job with the GPUs and the
// plan that it asks for; who does not fit is passed over. What Synergy does to cores and memory is not played.
class Synergy final : public Policy {
public:
    void schedule(Simulation& simulation) override {
        const std::vector<int> waiting = simulation.waiting();
        for (const int id : waiting)
            if (auto grant = simulation.place(id, simulation.job(id).gpus)) simulation.start(id, std::move(*grant));
    }
};

}  // namespace

std::unique_ptr<Policy> make_synergy() { return std::make_unique<Synergy>(); }

}  // namespace tpx
