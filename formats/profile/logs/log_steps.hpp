// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tpx::formats {

/// One report of a log about the duration of steps: of the step `number`, or of all steps since the last report.
struct LoggedStep {
    double number = 0;
    double value = 0;  ///< seconds of a step, or a rate
};

/// The reports that are left once warm-up is over.
struct SteadySteps {
    std::vector<double> values;
    std::size_t used = 0;     ///< steps that these values are about
    std::size_t dropped = 0;  ///< steps of warm-up
};

/// Leaves out reports that begin within the first tenth of all steps, and at least within the first two: compilation,
/// allocation and caches make them slow. `are_averages`: each report is about all steps since the one before. Reports
/// are in order of their numbers.
SteadySteps steady_steps(std::span<const LoggedStep> steps, bool are_averages);

/// The middle of `values`, of which there is at least one; of an even number, the mean of the two in the middle.
double median(std::vector<double> values);

}  // namespace tpx::formats
