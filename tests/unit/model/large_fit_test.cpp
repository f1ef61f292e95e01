// SPDX-License-Identifier: Apache-2.0
#include "lib/model/fit.hpp"
#include "tests/support/cpu_time.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace tpx;

namespace {

ModelSize two_billion() {
    ModelSize model;
    model.parameters = 2e9;
    model.layers = 32;
    model.hidden = 2304;
    model.heads = 18;
    model.sequence = 1024;
    return model;
}

const char* const many_plans[] = {"dp=8",      "dp=8,zero=1",      "dp=8,recompute=full", "dp=8,zero=2,offload",
                                  "tp=8",      "tp=4,dp=2",        "tp=2,pp=2,dp=2,mb=4", "pp=8,mb=8",
                                  "dp=8,ga=2", "tp=2,dp=4,zero=1", "pp=2,dp=4,mb=2",      "dp=8,zero=3"};

// `times` runs of each of 288 configurations, with errors of 2 %.
std::vector<Run> many_runs_of(int times) {
    Parameters is = prior_parameters(two_billion());
    is.forward *= 1.2;
    is.nic = 2e10;
    std::mt19937 random{7};
    std::normal_distribution<double> normal;
    std::vector<Run> result;
    for (const char* plan : many_plans)
        for (const std::vector<int>& gpus : {std::vector<int>{8}, std::vector<int>{4, 4}, std::vector<int>{2, 2, 2, 2}})
            for (int batch = 32; batch <= 256; batch += 32)
                for (int i = 0; i < times; ++i) {
                    Run run;
                    run.plan = parse_execution_plan(plan);
                    run.allocation = {gpus, 2, 4};
                    run.batch = batch;
                    run.seconds = predicted_seconds(is, two_billion(), run) * std::exp(0.02 * normal(random));
                    result.push_back(run);
                }
    return result;
}

}  // namespace

TEST_CASE("in a large table, a configuration is predicted as by a fit without it") {
    const std::vector<Run> measured = many_runs_of(1);
    const Belief prior = prior_belief(two_billion());
    const Fit fit = fit_parameters(two_billion(), measured, prior, 1);
    const std::vector<double> errors = leave_one_out(two_billion(), measured, prior, fit);
    for (std::size_t i = 0; i < measured.size(); i += 41) {
        CAPTURE(i);
        std::vector<Run> others = measured;
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
        const Fit without = fit_parameters(two_billion(), others, prior, 1);
        const double error =
            predicted_seconds(without.parameters, two_billion(), measured[i]) / measured[i].seconds - 1;
        const double shift = std::abs(error - fit.errors[i]);
        CHECK(std::abs(errors[i] - error) < 0.01 * shift + 1e-6);
    }
}

TEST_CASE("outliers among thousands of runs are found in seconds") {
    std::vector<Run> measured = many_runs_of(10);
    const std::vector<std::size_t> wrong{5, 700, 701, 1500, 2800};
    for (const std::size_t i : wrong) measured[i].seconds *= i % 2 == 0 ? 1.5 : 0.6;
    std::vector<std::size_t> found;
    const Belief prior = prior_belief(two_billion());
    const double taken = test::least_cpu_seconds(1, [&] { found = outliers(two_billion(), measured, prior); });
    MESSAGE("outliers of ", measured.size(), " runs: ", taken, " s");
    CHECK(found == wrong);
#ifdef NDEBUG
    CHECK(taken < 10);
#endif
}
