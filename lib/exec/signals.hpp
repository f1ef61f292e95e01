// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/error.hpp"

#include <atomic>
#include <string_view>

namespace tpx {

/// While it lives, the first SIGTERM, SIGINT or SIGUSR1 ends nothing but is remembered, so that work can stop where it
/// may; a second one, after a tenth of a second, ends the process at once, with the exit status of exit_of(). SIGPIPE
/// is ignored: what cannot be written is an error. At most one may live.
class StopSignals {
public:
    StopSignals();
    ~StopSignals();
    StopSignals(const StopSignals&) = delete;
    StopSignals& operator=(const StopSignals&) = delete;

    /// The first signal that came, or 0. It may change at any time.
    const std::atomic<int>& signal() const;

    /// From now on no signal ends the process, also after this object: its exit status would hide that the output is in
    /// place. signal() still records the first one.
    void shield() const;
};

/// Throws Error "stopped on request", followed by `what`, if the number at `signal`, which may be null, is that of a
/// signal (StopSignals::signal).
void check_not_stopped(const std::atomic<int>* signal, std::string_view what = "");

/// How a run that `signal` stopped ends: interrupted by SIGINT, resumable by the others.
Exit exit_of(int signal);

}  // namespace tpx
