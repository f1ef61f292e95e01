// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/policies.hpp"
#include "lib/cluster/simulation.hpp"

namespace tpx {
namespace {

// Strictly in order of arrival: who does not fit holds up all who came later. A job that only its tenant's quota stops
// holds up nobody else.
class Fifo final : public Policy {
public:
    void schedule(Simulation& simulation) override {
        const std::vector<int> waiting = simulation.waiting();
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

std::unique_ptr<Policy> make_fifo() { return std::make_unique<Fifo>(); }

}  // namespace tpx
