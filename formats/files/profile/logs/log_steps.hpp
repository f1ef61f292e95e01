// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tpx::formats {

/// A report about the duration of step `number`, or of all steps since the last report.
struct LoggedStep {
    double number = 0;
    double value = 0;  ///< seconds of a step, or a rate
};

/// The reports after warm-up.
struct SteadySteps {
    std::vector<double> values;
    std::size_t used = 0;     ///< steps that these values cover
    std::size_t dropped = 0;  ///< steps of warm-up
};

/// Drops reports that start in the first 10 % of all steps, or in the first two: compilation, allocation and cold
/// caches slow them down. `are_averages`: each report covers all steps since the previous one. Reports are sorted by
/// number.
SteadySteps steady_steps(std::span<const LoggedStep> steps, bool are_averages);

/// The median of `values`, which must not be empty.
double median(std::vector<double> values);

}  // namespace tpx::formats
