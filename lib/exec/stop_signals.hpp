// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/error.hpp"

#include <atomic>
#include <string_view>

namespace tpx {

/// While a StopSignals exists, the first SIGTERM, SIGINT or SIGUSR1 is only recorded, so that work can stop at a
/// suitable point; a second one, at least a tenth of a second later, ends the process at once, with the exit status
/// exit_of(). SIGPIPE is ignored, so that failed writes become errors. At most one may exist.
class StopSignals {
public:
    StopSignals();
    ~StopSignals();
    StopSignals(const StopSignals&) = delete;
    StopSignals& operator=(const StopSignals&) = delete;

    /// The first signal that was received, or 0. It may change at any time.
    const std::atomic<int>& signal() const;

    /// From now on, no signal ends the process, even after this object is destroyed: the exit status would hide that
    /// the output is in place. signal() still records the first one.
    void shield() const;
};

/// Throws Error "stopped on request", followed by `what`, if `signal` (StopSignals::signal) is not null and contains a
/// signal number.
void check_not_stopped(const std::atomic<int>* signal, std::string_view what = "");

/// The exit status of a run that `signal` stopped: interrupted for SIGINT, resumable for the others.
Exit exit_of(int signal);

}  // namespace tpx
