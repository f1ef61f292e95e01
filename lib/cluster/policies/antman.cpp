// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/job_order.hpp"
#include "lib/cluster/policies.hpp"

namespace tpx {
namespace {

// As Xiao et al., "AntMan" (OSDI 2020), treats its two classes: guaranteed jobs get exactly what they ask for, first
// come first served, and stop best-effort ones for it; best-effort jobs take what is left. GPUs are not shared here.
class Antman final : public Policy {
public:
    void schedule(Simulation& simulation) override {
        std::vector<int> order;
        const auto add = [&](const std::vector<int>& ids, bool guaranteed) {
            for (const int id : ids)
                if (simulation.job(id).guaranteed == guaranteed) order.push_back(id);
        };
        for (const bool guaranteed : {true, false}) {
            add(simulation.running(), guaranteed);
            add(simulation.waiting(), guaranteed);
        }
        run_in_order(simulation, order);
    }
};

}  // namespace

std::unique_ptr<Policy> make_antman() { return std::make_unique<Antman>(); }

}  // namespace tpx
