// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/generate_trace.hpp"

#include "lib/cluster/summary.hpp"
#include "lib/core/error.hpp"
#include "tests/unit/cluster/random_trace.hpp"

#include <doctest/doctest.h>

namespace tpx {
namespace {

std::vector<double> durations(const std::vector<TraceJob>& jobs, int gpus) {
    std::vector<double> seconds;
    for (const TraceJob& job : jobs)
        if (job.gpus == gpus) seconds.push_back(job.work / 1e6);
    return seconds;
}

TEST_CASE("the same recipe makes the same jobs, another seed makes others") {
    const Cluster cluster = test::simple_cluster(8, 8);
    TraceRecipe recipe;
    const std::vector<TraceJob> one = generate_trace(recipe, cluster), other = generate_trace(recipe, cluster);
    recipe.seed = 2;
    const std::vector<TraceJob> third = generate_trace(recipe, cluster);
    REQUIRE(one.size() == 1000);
    bool differs = false;
    for (std::size_t i = 0; i < one.size(); ++i) {
        CHECK(one[i].arrival == other[i].arrival);
        CHECK(one[i].work == other[i].work);
        CHECK(one[i].gpus == other[i].gpus);
        CHECK(one[i].gpus <= 64);
        differs = differs || one[i].arrival != third[i].arrival;
    }
    CHECK(differs);
}

TEST_CASE("random jobs come as often, ask for as much and take as long as the recipe says") {
    const Cluster cluster = test::simple_cluster(16, 8);
    TraceRecipe recipe;
    recipe.jobs = 100000;
    recipe.hourly = 30;
    const std::vector<TraceJob> jobs = generate_trace(recipe, cluster);
    CHECK(seconds_of(jobs.back().arrival) / 3600 == doctest::Approx(100000 / 30.0).epsilon(0.02));
    const std::vector<double> single = durations(jobs, 1), eight = durations(jobs, 8);
    CHECK(static_cast<double>(single.size()) == doctest::Approx(100000.0 * 76627 / 82233).epsilon(0.01));
    CHECK(quantile(single, 0.5) == doctest::Approx(1117).epsilon(0.05));  // as in Philly's trace
    CHECK(quantile(single, 0.9) == doctest::Approx(8512).epsilon(0.05));
    CHECK(quantile(eight, 0.5) == doctest::Approx(23652).epsilon(0.25));
    recipe.mean_duration = 600;
    recipe.gpus = {2, 4};
    recipe.priorities = {1, 5, 10};
    const std::vector<TraceJob> exponential = generate_trace(recipe, cluster);
    double sum = 0, twos = 0, tens = 0;
    for (const TraceJob& job : exponential) sum += job.work / 1e6, twos += job.gpus == 2, tens += job.priority == 10;
    CHECK(sum / 100000 == doctest::Approx(600).epsilon(0.02));
    CHECK(twos / 100000 == doctest::Approx(0.5).epsilon(0.02));
    CHECK(tens / 100000 == doctest::Approx(1 / 3.0).epsilon(0.02));
}

TEST_CASE("numbers of GPUs that never fit are not asked for") {
    TraceRecipe recipe;
    recipe.gpus = {16};
    CHECK_THROWS_AS(generate_trace(recipe, test::simple_cluster(1, 8)), Error);
}

}  // namespace
}  // namespace tpx
