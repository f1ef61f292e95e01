// SPDX-License-Identifier: Apache-2.0
#include "lib/model/uncertainty.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace tpx;

namespace {

ModelSize billion_model() {
    ModelSize model;
    model.parameters = 1e9;
    model.layers = 24;
    model.hidden = 2048;
    model.heads = 16;
    model.sequence = 1024;
    return model;
}

Run factor_run(const char* plan, double factor) {
    Run run;
    run.plan = parse_execution_plan(plan);
    run.allocation = {{run.plan.gpus()}, 2, 4};
    run.batch = 32;
    run.seconds = factor * predicted_seconds(prior_parameters(billion_model()), billion_model(), run);
    return run;
}

// How sure a fit to runs is that take `factor` of what the prior expects, every other one by another factor.
Uncertainty uncertainty_with(double factor, double other) {
    std::vector<Run> runs;
    for (const char* plan : {"dp=1", "dp=2", "dp=4", "dp=8", "dp=8,zero=1", "dp=8,recompute=full", "tp=4", "tp=8"})
        runs.push_back(factor_run(plan, runs.size() % 2 == 0 ? factor : other));
    const Belief prior = prior_belief(billion_model());
    const Fit fit = fit_parameters(billion_model(), runs, prior);
    return uncertainty_of(fit, leave_one_out(billion_model(), runs, prior, fit));
}

}  // namespace

TEST_CASE("the likely range of a step is around its prediction, as far on either side") {
    const Uncertainty sure = uncertainty_with(1, 1);
    const Run run = factor_run("dp=4", 1);
    const SecondsRange range = likely_seconds(sure, billion_model(), run);
    const double predicted = predicted_seconds(from_logarithms(sure.belief.mean), billion_model(), run);
    CHECK(range.low < predicted);
    CHECK(range.low * range.high == doctest::Approx(predicted * predicted));
}

TEST_CASE("the range is wider where runs contradict each other, and for plans that no run is like") {
    const auto width = [](const Uncertainty& sure, const char* plan) {
        const SecondsRange range = likely_seconds(sure, billion_model(), factor_run(plan, 1));
        return range.high / range.low;
    };
    const Uncertainty sure = uncertainty_with(1, 1), contradicted = uncertainty_with(1.3, 0.8);
    CHECK(contradicted.scale > 1.3 * sure.scale);
    CHECK(width(contradicted, "dp=4") > 1.3 * width(sure, "dp=4"));
    CHECK(width(sure, "dp=8,zero=2,offload") > 1.3 * width(sure, "dp=4"));
}

TEST_CASE("the expected error is never below that of the model itself") {
    CHECK(expected_error(1, 0) == doctest::Approx(0.048).epsilon(0.01));
    CHECK(expected_error(2, 0.01) == doctest::Approx(2 * std::sqrt(2 / 3.14159) * std::sqrt(0.0136)).epsilon(0.01));
}
