// SPDX-License-Identifier: Apache-2.0
// Tables in which configurations were measured several times. Repetition shows the noise, but not the error of the
// model. The tables of testdata/profile/rubick and pollux have each configuration once; repeats are drawn from them.
#include "tests/support/sanitized.hpp"
#include "tests/unit/formats/files/profile/measured_tables.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

using namespace tpx;

namespace {

// Some configurations of a table, each measured several times.
struct Repeats {
    std::size_t configurations, times;
    double noise;  // deviation of the logarithm of a time
};

struct Coverage {
    std::size_t covered = 0, rows = 0;
    double share() const { return static_cast<double>(covered) / static_cast<double>(rows); }
};

// The number of rows of other configurations, with the same noise, in the 90 % intervals of a fit to `repeats`.
Coverage coverage_of(const test::MeasuredTable& table, const Repeats& repeats, unsigned draw) {
    std::mt19937 random{draw};
    std::normal_distribution<double> noise{0, repeats.noise};
    std::vector<std::size_t> order(table.runs.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::shuffle(order, random);
    const auto noisy = [&](std::size_t row) {
        Run run = table.runs[row];
        run.seconds *= std::exp(noise(random));
        return run;
    };
    std::vector<Run> fitted;
    for (std::size_t i = 0; i < repeats.configurations; ++i)
        for (std::size_t k = 0; k < repeats.times; ++k) fitted.push_back(noisy(order[i]));
    const Fit fit = fit_parameters(table.model.size, fitted, table.prior);
    const Uncertainty uncertainty = uncertainty_of(fit, leave_one_out(table.model.size, fitted, table.prior, fit));
    Coverage coverage;
    for (std::size_t i = repeats.configurations; i < order.size(); ++i) {
        const Run run = noisy(order[i]);
        const SecondsRange range = likely_seconds(uncertainty, table.model.size, run);
        coverage.covered += range.low <= run.seconds && run.seconds <= range.high;
        ++coverage.rows;
    }
    return coverage;
}

}  // namespace

TEST_CASE("90 % intervals cover 85 to 97 % of unseen rows, also where each configuration was measured several times" *
          doctest::skip(test::is_sanitized)) {
    std::vector<test::MeasuredTable> tables;
    for (const char* name : {"gpt2", "t5", "bert", "roberta", "vit", "llama7"})
        tables.push_back(test::rubick_table(name));
    tables.push_back(test::t4_table());
    for (const Repeats& repeats :
         {Repeats{9, 1, 0.02}, {4, 3, 0.02}, {6, 5, 0.02}, {9, 3, 0.02}, {9, 3, 0.05}, {15, 4, 0.02}, {15, 1, 0.02}}) {
        double share = 0;
        for (const test::MeasuredTable& table : tables) {
            Coverage all;
            for (unsigned draw = 1; draw <= 8; ++draw) {
                const Coverage one = coverage_of(table, repeats, draw);
                all.covered += one.covered, all.rows += one.rows;
            }
            MESSAGE(table.name, ": ", repeats.configurations, " configurations, ", repeats.times, " times, noise ",
                    repeats.noise, ": intervals cover ", 100 * all.share(), " %");
            share += all.share() / static_cast<double>(tables.size());
        }
        MESSAGE("all tables: ", repeats.configurations, " configurations, ", repeats.times, " times, noise ",
                repeats.noise, ": intervals cover ", 100 * share, " %");
        CHECK(share >= 0.85);
        CHECK(share <= 0.97);
    }
}
