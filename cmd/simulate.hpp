// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli.hpp"
#include "lib/cluster/metrics.hpp"
#include "lib/cluster/rules.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace tpx::cli {

struct SimulateOptions {
    std::string trace, cluster, policies, speeds;
    std::string quantum, reconfig, delays;
    std::string jobs;
    bool skip_bad = false;
};

/// One policy's run.
struct Played {
    std::string policy;
    Results results;
    Summary summary;
};

void run_simulate(const SimulateOptions& options, Output& out);

/// Describes `tpx simulate`.
void add_simulate(Cli& cli);

/// How the options say that a trace is played.
Rules rules_of(const SimulateOptions& options);

/// The numbers of one policy.
nlohmann::ordered_json summary_json(const Played& played);

/// A row for each policy, for people.
std::string summary_table(const std::vector<Played>& played);

/// A row for each policy and job, CSV.
std::string jobs_csv(const std::vector<Played>& played, const std::vector<TraceJob>& jobs);

}  // namespace tpx::cli
