// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/job.hpp"
#include "lib/cluster/simulation_rules.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tpx {

/// Which part of a trace is played.
struct TraceFilter {
    std::optional<std::pair<Time, Time>> window;  ///< jobs that arrive from the first time up to, not at, the second
    double load = 1;                              ///< how many times as fast jobs arrive
    double sample = 1;                            ///< share of the jobs that is kept
    std::uint64_t seed = 1;                       ///< which ones: the same seed keeps the same ones
};

/// The jobs that `filter` leaves, in their order; the window's begin becomes time 0.
std::vector<TraceJob> filtered(std::vector<TraceJob> jobs, const TraceFilter& filter);

/// `script`, which is about `all` jobs, as it is for those that `filter` leaves, `kept`: its times change as arrivals
/// do, what comes before the window is there when it begins, and events of other jobs are left out.
std::vector<ScriptedEvent> filtered(std::vector<ScriptedEvent> script, std::span<const TraceJob> all,
                                    std::span<const TraceJob> kept, const TraceFilter& filter);

/// The same for outages: those that are over when the window begins are left out.
std::vector<Outage> filtered(std::vector<Outage> outages, const TraceFilter& filter);

}  // namespace tpx
