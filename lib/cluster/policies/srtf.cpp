// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/job_order.hpp"
#include "lib/cluster/keyed_queue.hpp"
#include "lib/cluster/policies.hpp"
#include "lib/cluster/speed.hpp"

#include <optional>
#include <vector>

namespace tpx {
namespace {

// The job that would finish first on the GPUs that it requests goes first. The run times of all jobs are known.
class Srtf final : public Policy {
public:
    void schedule(Simulation& simulation) override {
        if (start_only_waiting(simulation)) return;
        const auto left = [&](int id) { return simulation.remaining(id) / asked_rate(simulation, id); };
        queue_.run(simulation, left);
    }

    void forget() override {
        rates_.clear();
        queue_.forget();
    }

private:
    // The rate with all GPUs on hosts of the job's own kind, or the first.
    double asked_rate(const Simulation& simulation, int id) {
        if (rates_.size() <= static_cast<std::size_t>(id)) rates_.resize(id + 1);
        if (!empty_) empty_.emplace(simulation.cluster());
        if (rates_[id] == 0) rates_[id] = full_rate(simulation.job(id), simulation.cluster(), *empty_);
        return rates_[id];
    }

    KeyedQueue queue_;
    std::vector<double> rates_;
    std::optional<GpuPool> empty_;
};

}  // namespace

std::unique_ptr<Policy> make_srtf() { return std::make_unique<Srtf>(); }

}  // namespace tpx
