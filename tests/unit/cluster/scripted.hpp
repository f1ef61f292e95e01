// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/policies.hpp"
#include "lib/cluster/simulation.hpp"
#include "tests/unit/cluster/random_trace.hpp"

#include <memory>
#include <string_view>
#include <vector>

namespace tpx::test {

/// A job that is twice as fast on twice as many GPUs, up to 16, and takes `seconds` on all of them.
inline TraceJob linear_job(double seconds) {
    TraceJob job;
    job.name = "job";
    job.gpus = job.most = 16;
    job.least = 1;
    job.own_limits = true;
    job.work = seconds * 1e6;
    job.speed = std::make_shared<PowerSpeed>(16, 1);
    return job;
}

inline ScriptedEvent host_gpus(double seconds, int host, int gpus) {
    ScriptedEvent event;
    event.time = time_of(seconds);
    event.host = host;
    event.gpus = gpus;
    return event;
}

/// Of job 0.
inline ScriptedEvent job_limits(double seconds, int gpus, int least, int most) {
    ScriptedEvent event;
    event.time = time_of(seconds);
    event.job = 0;
    event.gpus = gpus, event.least = least, event.most = most;
    return event;
}

/// Of job 0.
inline ScriptedEvent job_cpus(double seconds, double cpus) {
    ScriptedEvent event;
    event.time = time_of(seconds);
    event.job = 0;
    event.cpus = cpus;
    return event;
}

inline SimulationResults run_script(std::string_view policy, const Cluster& cluster, const std::vector<TraceJob>& jobs,
                                    const SimulationRules& rules) {
    return Simulation{cluster, jobs, rules}.run(*find_policy(policy)->make());
}

}  // namespace tpx::test
