// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/job_order.hpp"
#include "lib/cluster/keyed_queue.hpp"
#include "lib/cluster/policies.hpp"

#include <algorithm>
#include <array>

namespace tpx {
namespace {

// Least attained service without knowing how long jobs take, as in Gu et al., "Tiresias" (NSDI 2019): jobs sink from
// level to level as the GPU-time that they have had passes thresholds; inside a level the order is that of arrival.
class Las final : public Policy {
public:
    void schedule(Simulation& simulation) override {
        if (!start_only_waiting(simulation)) {
            const auto key = [&](int id) { return static_cast<double>(level(simulation.attained(id))); };
            queue_.run(simulation, key);
        }
        wake_at_next_level(simulation);
    }

    void forget() override { queue_.forget(); }

private:
    static constexpr double gpu_hour = 3600e6;
    static constexpr std::array<double, 4> thresholds{gpu_hour, 8 * gpu_hour, 64 * gpu_hour, 512 * gpu_hour};

    static std::size_t level(double attained) {
        return static_cast<std::size_t>(std::ranges::upper_bound(thresholds, attained) - thresholds.begin());
    }

    static void wake_at_next_level(Simulation& simulation) {
        if (simulation.waiting().empty()) return;
        Time next = never;
        for (const int id : simulation.running()) {
            const double attained = simulation.attained(id);
            const std::size_t now = level(attained);
            if (now == thresholds.size()) continue;
            const double time = std::ceil((thresholds[now] - attained) / simulation.grant(id).gpus());
            next = std::min(next, simulation.now() + std::max(Time{1}, static_cast<Time>(time)));
        }
        if (next != never) simulation.wake(next);
    }

    KeyedQueue queue_;
};

}  // namespace

std::unique_ptr<Policy> make_las() { return std::make_unique<Las>(); }

}  // namespace tpx
