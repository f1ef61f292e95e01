// SPDX-License-Identifier: Apache-2.0
// Whether a fitted model predicts the speed of other sizes of its family: MPT of 125 million to 70 billion parameters.
#include "tests/unit/formats/files/profile/measured_tables.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace tpx;

namespace {

struct SizeErrors {
    double own = 0, prior = 0, seconds = 0;  // with the other size's parameters scaled, without, and not scaled
    std::size_t covered = 0, rows = 0;
};

void predict_size(const test::MeasuredTable& known, const test::MeasuredTable& other, SizeErrors& errors) {
    formats::ThroughputModel fitted = known.model;
    const Fit fit = fit_parameters(known.model.size, known.runs, known.prior, 2);
    const std::vector<double> left_out = leave_one_out(known.model.size, known.runs, known.prior, fit);
    fitted.parameters = fit.parameters;
    fitted.covariance = fit.belief.covariance;
    fitted.interval_scale = uncertainty_of(fit, left_out).scale;
    const formats::ThroughputModel expected = formats::like(other.model, fitted);
    const auto error = [&](const Parameters& parameters, const Run& run) {
        return std::abs(predicted_seconds(parameters, other.model.size, run) / run.seconds - 1);
    };
    for (const Run& run : other.runs) {
        errors.own += error(*expected.parameters, run);
        errors.prior += error(from_logarithms(other.prior.mean), run);
        errors.seconds += error(fit.parameters, run);
        const SecondsRange range = likely_seconds(formats::uncertainty_of(expected), other.model.size, run);
        errors.covered += range.low <= run.seconds && run.seconds <= range.high;
        ++errors.rows;
    }
}

}  // namespace

TEST_CASE("a fitted model predicts the next larger and smaller sizes of its family") {
    const std::vector<test::MeasuredTable> tables = test::mpt_tables(4);
    SizeErrors all;
    for (const test::MeasuredTable& known : tables) {
        const std::string gpu = known.name.substr(known.name.find(' '));
        for (const test::MeasuredTable& other : tables) {
            const double ratio = other.model.size.parameters / known.model.size.parameters;
            if (&known == &other || !other.name.ends_with(gpu) || ratio > 4 || ratio < 0.25) continue;
            SizeErrors one;
            predict_size(known, other, one);
            const auto rows = static_cast<double>(one.rows);
            MESSAGE(known.name, " tells of ", other.name, ": ", 100 * one.own / rows, " %, prior ",
                    100 * one.prior / rows);
            all.own += one.own, all.prior += one.prior, all.seconds += one.seconds;
            all.covered += one.covered, all.rows += one.rows;
        }
    }
    const auto rows = static_cast<double>(all.rows);
    MESSAGE("sizes of a family: ", 100 * all.own / rows, " % of ", rows, ", without the other size ",
            100 * all.prior / rows, ", with its seconds per sample ", 100 * all.seconds / rows, ", covered ",
            100 * static_cast<double>(all.covered) / rows);
    REQUIRE(all.rows > 50);
    CHECK(all.own / rows <= 0.12);
    CHECK(all.own < all.prior / 2);
    CHECK(static_cast<double>(all.covered) >= 0.85 * rows);
    CHECK(static_cast<double>(all.covered) <= 0.95 * rows);
}
