// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/cluster.hpp"
#include "lib/cluster/simulation_rules.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// The scripted changes of rows, CSV or JSON, in order of time: `time` in seconds, and either `host` and `gpus` or
/// `job` and at least one of `gpus`, `min_gpus`, `max_gpus` and `cpus`. Throws Error "FILE:LINE: cause" for hosts and
/// jobs that do not exist, for more GPUs than a host has, for limits that exclude what a job requests then, and for
/// requests that a job cannot run with.
std::vector<ScriptedEvent> parse_events(std::string_view text, std::string_view file, const Cluster& cluster,
                                        std::span<const TraceJob> jobs);

/// The scripted changes in the file at `path`.
std::vector<ScriptedEvent> read_events(const std::string& path, const Cluster& cluster, std::span<const TraceJob> jobs);

}  // namespace tpx::formats
