// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/profile/logs/log_run.hpp"
#include "formats/files/profile/logs/metric_record.hpp"

#include <optional>

namespace tpx::formats {

/// Derives the time of steps from records that have a step of the trainer and the time since the job's start.
class StepClock {
public:
    /// Adds the mean time of the steps since the last record to `run`. Times in whole seconds are added when at least
    /// 60 s have passed, so that rounding changes them by less than 2 %.
    void read(const MetricRecord& record, LogRun& run);

private:
    struct Moment {
        double step = 0;
        double seconds = 0;
        bool is_rounded = false;  ///< to whole seconds
    };

    static std::optional<Moment> moment_of(const MetricRecord& record);

    void forget() {
        steps_ = seconds_ = 0;
        is_rounded_ = false;
    }

    std::optional<Moment> last_;
    double steps_ = 0, seconds_ = 0;  // since the last report
    bool is_rounded_ = false;
};

}  // namespace tpx::formats
