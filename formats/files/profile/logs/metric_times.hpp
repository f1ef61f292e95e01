// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/profile/logs/log_run.hpp"
#include "formats/files/profile/logs/metric_record.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tpx::formats {

/// How a metric reports the duration of a step.
struct MetricTime {
    StepReport report = StepReport::seconds;
    double unit = 1;            ///< factor of the value
    bool is_frequency = false;  ///< steps per second instead of seconds per step

    double value_of(double metric) const { return is_frequency ? 1 / metric : metric * unit; }
};

/// Finds the metrics that report step times: those of known frameworks, and others whose names are like the columns of
/// a table of runs, such as "perf/step_time" and "iter_time_ms". Rates of tokens are used only if their name says that
/// they are those of one GPU.
class MetricTimes {
public:
    /// How the metric `name` reports step times; nothing if it does not.
    std::optional<MetricTime> find(std::string_view name);

    /// Adds the step times of `record` to `run`, at most one of each kind; metrics of known frameworks come first.
    void read(const MetricRecord& record, double step, LogRun& run);

private:
    std::map<std::string, std::optional<MetricTime>, std::less<>> aliases_;  // by name, because each record has it
};

}  // namespace tpx::formats
