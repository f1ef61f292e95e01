// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/log_steps.hpp"

#include <algorithm>
#include <cmath>

namespace tpx::formats {
namespace {

constexpr double least_warm_up = 2;
constexpr double warm_up_share = 0.1;

// How many steps lie between two reports, as a rule: lines of a log can be lost.
double usual_interval(std::span<const LoggedStep> steps) {
    if (steps.size() < 2) return 1;
    std::vector<double> gaps;
    for (std::size_t i = 1; i < steps.size(); ++i) gaps.push_back(steps[i].number - steps[i - 1].number);
    const auto middle = gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() / 2);
    std::ranges::nth_element(gaps, middle);
    return std::max(1.0, *middle);
}

}  // namespace

SteadySteps steady_steps(std::span<const LoggedStep> steps, bool are_averages) {
    SteadySteps result;
    if (steps.empty()) return result;
    const double interval = usual_interval(steps);
    const double start = steps.front().number - std::min(interval, std::max(1.0, steps.front().number));
    const double warm_up = std::max(least_warm_up, std::floor(warm_up_share * (steps.back().number - start)));
    double before = start;
    for (const LoggedStep& step : steps) {
        const double covered = are_averages ? std::min(interval, step.number - before) : 1;
        const bool is_steady = step.number - covered >= start + warm_up;
        (is_steady ? result.used : result.dropped) += static_cast<std::size_t>(std::max(1.0, covered));
        if (is_steady) result.values.push_back(step.value);
        before = step.number;
    }
    return result;
}

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    if (values.size() % 2 == 1) return *middle;
    return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace tpx::formats
