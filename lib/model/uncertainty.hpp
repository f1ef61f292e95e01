// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/fit.hpp"

#include <span>

namespace tpx {

/// What predictions are good for: what is believed of the parameters, and how much wider than that the errors are.
struct Uncertainty {
    Belief belief;
    double scale = 1;  ///< of the deviations that follow from `belief` and from the model's usual error
};

/// Seconds between which a step takes with a probability of 90 %.
struct SecondsRange {
    double low = 0;
    double high = 0;
};

/// The uncertainty of predictions by `fit`, given leave_one_out() of its runs: repeated runs of a
/// configuration count together as one.
Uncertainty uncertainty_of(const Fit& fit, std::span<const double> leave_one_out_errors);

/// Expected deviation of the logarithm of measured from predicted seconds of `run`.
double prediction_deviation(const Uncertainty& uncertainty, const ModelSize& model, const Run& run);

/// The range of the seconds of `run`, around what is predicted by the mean of the belief.
SecondsRange likely_seconds(const Uncertainty& uncertainty, const ModelSize& model, const Run& run);

/// The expected mean error of predictions whose parameters alone make their logarithms vary by `variance`.
double expected_error(double scale, double variance);

}  // namespace tpx
