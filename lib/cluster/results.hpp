// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/job.hpp"

#include <vector>

namespace tpx {

/// What became of one job.
struct JobResult {
    Time arrival = 0;
    Time start = never;   ///< when it first got GPUs
    Time finish = never;  ///< when its last step was done; never for a job that could not finish
    double held = 0;      ///< GPU-microseconds that it had
    double worked = 0;    ///< of these, those of a job that starts, stops for a change or trains, but not those that it
                          ///< is only about to have or to lose
    double trained = 0;   ///< of these, those in which the GPUs trained
    double lost = 0;      ///< of these, those in which none of its GPUs trained: it was started or changed
    double moved = 0;     ///< bytes, for changes and later starts, where their costs are planned
    Time paused = 0;      ///< that changes and later starts take, until now
    int changes = 0;      ///< of its GPUs or plan while it ran
    int stops = 0;        ///< times that it lost all its GPUs
};

/// What a job did with which GPUs, for charts.
struct JobSegment {
    int job = 0;
    Time begin = 0;
    Time end = 0;
    Grant grant;  ///< GPUs, all of which trained or all of which waited, and the job's plan
    bool training = false;
};

/// What came of a trace under a policy.
struct SimulationResults {
    std::vector<JobResult> jobs;       ///< in the order of the trace
    std::vector<JobSegment> segments;  ///< in order of time; only where they were asked for
    Time end = 0;                      ///< when the last GPU was given back
    std::uint64_t events = 0;
};

}  // namespace tpx
