// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/model_error.hpp"

#include "lib/cluster/model_plans.hpp"
#include "lib/cluster/random.hpp"
#include "lib/model/belief.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numbers>

namespace tpx {
namespace {

const ModelSpeed* predicted(const TraceJob& job) { return dynamic_cast<const ModelSpeed*>(job.speed.get()); }

// Box and Muller's method.
double normal(Random& random) {
    const double radius = std::sqrt(-2 * std::log(1 - random.unit()));
    return radius * std::cos(2 * std::numbers::pi * random.unit());
}

std::shared_ptr<const ModelPlans> wrong_model(const ModelPlans& right, double deviation, Random& random) {
    Job job = right.job();
    Vector logs = logarithms(job.parameters);
    for (double& log : logs) log += deviation * normal(random);
    job.parameters = from_logarithms(logs);
    return std::make_shared<ModelPlans>(std::move(job));
}

}  // namespace

bool any_predicted(std::span<const TraceJob> jobs) { return std::ranges::any_of(jobs, predicted); }

std::vector<TraceJob> with_model_error(std::span<const TraceJob> jobs, double deviation, std::uint64_t seed) {
    Random random{seed};
    std::map<const ModelPlans*, std::shared_ptr<const ModelPlans>> wrong;
    std::vector<TraceJob> result(jobs.begin(), jobs.end());
    for (TraceJob& job : result) {
        const ModelSpeed* right = predicted(job);
        if (!right) continue;
        std::shared_ptr<const ModelPlans>& plans = wrong[right->plans().get()];
        if (!plans) plans = wrong_model(*right->plans(), deviation, random);
        auto believed = std::make_shared<const ModelSpeed>(plans, right->own());
        job.truth = std::make_shared<TrueSpeed>(right->plans(), believed);
        job.speed = std::move(believed);
    }
    return result;
}

}  // namespace tpx
