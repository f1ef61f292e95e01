// SPDX-License-Identifier: Apache-2.0
// Whether Sia's decisions, which start from those of the last minute, are the best of all, by trying all of them.
#include "lib/cluster/policies.hpp"
#include "lib/cluster/simulation.hpp"
#include "tests/unit/cluster/random_trace.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace tpx {
namespace {

constexpr double scaling = 0.7;

double cost_of(const TraceJob& job, int gpus) {
    return gpus == 0 ? 1.1 : std::pow(std::pow(static_cast<double>(gpus) / job.least, scaling), -0.5);
}

// The least cost of the jobs of `ids` from `next` on with at most `gpus` GPUs.
double least_cost(const Simulation& simulation, const std::vector<int>& ids, std::size_t next, int gpus) {
    if (next == ids.size()) return 0;
    const TraceJob& job = simulation.job(ids[next]);
    double least = cost_of(job, 0) + least_cost(simulation, ids, next + 1, gpus);
    for (int has = job.least; has <= std::min(job.most, gpus); ++has)
        least = std::min(least, cost_of(job, has) + least_cost(simulation, ids, next + 1, gpus - has));
    return least;
}

// Sia, of which each decision is checked.
class CheckedSia final : public Policy {
public:
    bool resizes() const override { return true; }

    void schedule(Simulation& simulation) override {
        sia_->schedule(simulation);
        if (simulation.now() < next_) return;
        next_ = simulation.now() + 60 * second;
        std::vector<int> ids = simulation.waiting();
        ids.insert(ids.end(), simulation.running().begin(), simulation.running().end());
        double cost = 0;
        for (const int id : ids) cost += cost_of(simulation.job(id), simulation.grant(id).gpus());
        CHECK(cost == doctest::Approx(least_cost(simulation, ids, 0, simulation.usable())).epsilon(1e-6));
        ++checked;
    }

    int checked = 0;

private:
    std::unique_ptr<Policy> sia_ = find_policy("sia")->make();
    Time next_ = 0;
};

TEST_CASE("sia decides what is best of all, minute for minute") {
    std::mt19937 random{5};
    int checked = 0;
    for (int trial = 0; trial < 40; ++trial) {
        std::vector<TraceJob> jobs = test::random_jobs(random, 7, 4);
        for (TraceJob& job : jobs) {
            job.arrival /= 4;
            job.least = 1 + static_cast<int>(random() % static_cast<unsigned>(job.gpus));
            job.most = job.gpus + static_cast<int>(random() % 3);
            job.speed = std::make_shared<PowerSpeed>(job.gpus, scaling);
        }
        const Cluster cluster = test::simple_cluster(1, 6);
        CheckedSia policy;
        Simulation{cluster, jobs, {}}.run(policy);
        checked += policy.checked;
    }
    CHECK(checked > 200);
}

}  // namespace
}  // namespace tpx
