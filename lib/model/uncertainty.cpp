// SPDX-License-Identifier: Apache-2.0
#include "lib/model/uncertainty.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tpx {
namespace {

// The error of the model on runs that it was not fitted to, beyond that of its parameters. It, the weight of the
// assumption that it holds (in runs) and the limit on what one wrong run can add were chosen so that intervals after
// nine runs cover about 90 % of the other rows of the measured tables.
constexpr double model_deviation = 0.06;
constexpr double assumed_runs = 1;
constexpr double largest_square = 16;

// How much the seconds that uneven placements add differ from one placement to another, as a share of them.
constexpr double uneven_deviation = 0.28;

constexpr double student_quantile = 2.132;  // 95 % of Student's distribution with four degrees of freedom

// Runs that fit well say that the model suits this cluster, but nothing of parameters that they do not determine.
double total_deviation(double scale, double variance) {
    return std::hypot(std::max(1.0, scale) * std::sqrt(std::max(0.0, variance)), scale * model_deviation);
}

}  // namespace

Uncertainty uncertainty_of(const Fit& fit, std::span<const double> leave_one_out_errors) {
    double squares = assumed_runs, count = assumed_runs;
    for (std::size_t i = 0; i < leave_one_out_errors.size(); ++i) {
        const double variance = fit.leave_one_out_variances[i] + model_deviation * model_deviation;
        squares +=
            fit.shares[i] * std::min(std::pow(std::log1p(leave_one_out_errors[i]), 2) / variance, largest_square);
        count += fit.shares[i];
    }
    return {fit.belief, std::sqrt(squares / count)};
}

double prediction_deviation(const Uncertainty& uncertainty, const ModelSize& model, const Run& run) {
    const Vector slope = slope_of(uncertainty.belief.mean, model, run);
    const double usual = total_deviation(uncertainty.scale, dot(slope, uncertainty.belief.covariance * slope));
    return std::hypot(usual, uneven_deviation * slope[parameter_index(&Parameters::uneven)]);
}

SecondsRange likely_seconds(const Uncertainty& uncertainty, const ModelSize& model, const Run& run) {
    const double seconds = predicted_seconds(from_logarithms(uncertainty.belief.mean), model, run);
    const double factor = std::exp(student_quantile * prediction_deviation(uncertainty, model, run));
    return {seconds / factor, seconds * factor};
}

double expected_error(double scale, double variance) {
    return std::sqrt(2 / std::numbers::pi) * total_deviation(scale, variance);  // the mean of |x|, where x is normal
}

}  // namespace tpx
