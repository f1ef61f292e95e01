// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/change_cost.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace tpx {

/// What it takes until a job's GPUs train, or others may have them.
struct Delays {
    Time start = 0;    ///< from GPUs to the first step
    Time single = 0;   ///< the same for a job that gets one GPU
    Time grow = 0;     ///< from further GPUs to the first step with them; the job trains on meanwhile
    Time shrink = 0;   ///< from the decision to the last step with GPUs that are taken away
    Time release = 0;  ///< from a job's last step with GPUs until they are free
    /// False: whatever changes stops the job for `change`, and `grow` and `shrink` mean nothing.
    bool background = false;
    Time change = 0;
};

/// A host that is down from `begin` until `end`.
struct Outage {
    int host = 0;
    Time begin = 0;
    Time end = never;
};

/// A scripted change, of a host or of a job.
struct ScriptedEvent {
    Time time = 0;
    int host = any;  ///< whose GPUs become `gpus`, at most as many as the cluster says
    int job = any;   ///< what is given here replaces what the job requests and its limits
    std::optional<int> gpus;
    std::optional<int> least;
    std::optional<int> most;
    std::optional<double> cpus;  ///< cores for each GPU
};

/// How a trace is played, whatever the policy.
struct SimulationRules {
    Time quantum = 0;  ///< policies decide at multiples of it; 0: whenever something happens
    Delays delays;
    /// Where it is given, what changes and later starts of a job cost, in place of `delays.change` and `delays.start`.
    std::shared_ptr<const ChangeCosts> costs;
    std::vector<Outage> outages;
    std::vector<ScriptedEvent> script;
    /// A job on a failed host continues from the replicas of its state on its other hosts, if they have all of it.
    /// Needs `costs`.
    bool from_replicas = false;
    Time observe = 0;     ///< a step time counts as measured after so much training; 0: never
    Time checkpoint = 0;  ///< time between checkpoints, to which failures set a job back; 0: at once
    bool segments = false;
};

}  // namespace tpx
