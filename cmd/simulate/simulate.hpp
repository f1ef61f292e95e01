// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/cli.hpp"
#include "cmd/cli/options.hpp"
#include "formats/files/trace/trace_file.hpp"
#include "lib/cluster/generate_trace.hpp"
#include "lib/cluster/policies.hpp"
#include "lib/cluster/simulation_rules.hpp"
#include "lib/cluster/summary.hpp"
#include "lib/cluster/trace_filter.hpp"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tpx::cli {

class TimeColumn;

constexpr double longest_delay = 1e7;  ///< seconds; the upper limit of options for delays

struct SimulateOptions : TechniqueOptions {
    std::string trace, generate, cluster, speeds;
    std::vector<std::string> policies;
    std::string reconfig, models, hardware, delays;
    std::string window, elastic;
    std::string outages, events, recover;
    Duration quantum, restart, mtbf, repair, checkpoint, refit;
    Decimal load, sample, model_error;
    Integer seed;
    std::string jobs, timeline, report, write_trace, sweep;
    bool skip_bad = false;
};

/// One policy's run.
struct PolicyRun {
    std::string policy;
    SimulationResults results;
    SimulationSummary summary;
};

/// What is played, whatever the policy.
struct Setup {
    Cluster cluster;
    formats::JobSpeeds speeds;
    formats::ParsedTrace trace;
    SimulationRules rules;
    double model_error = 0;  ///< see with_model_error()
    std::uint64_t seed = 1;
};

/// Reads all that `options` name; rows that are left out are said on `out`.
Setup setup_of(const SimulateOptions& options, Output& out);

/// Plays it once; `progress` is called with the number of jobs that have finished.
PolicyRun play(const PolicyInfo& info, const Setup& setup, const std::function<void(int)>& progress);

/// The trace, or the recipe of a random one.
std::string trace_name(const SimulateOptions& options);

/// Plays the trace for each value of --sweep, several at a time, and compares.
void run_sweep(const SimulateOptions& options, std::span<const PolicyInfo* const> chosen, Output& out);

void run_simulate(const SimulateOptions& options, Output& out);

/// Describes `tpx simulate`.
void add_simulate(Cli& cli);

/// Sets the option `name`, such as "--load", of `options` as the command line does. Throws Error (usage).
void set_option(SimulateOptions& options, const std::string& name, const std::string& value);

/// How the options say that a trace is played.
SimulationRules simulation_rules_of(const SimulateOptions& options);

/// The random trace that the options ask for.
TraceRecipe recipe_of(const SimulateOptions& options);

/// The limits of jobs without limits that the options ask for.
std::optional<Elasticity> elasticity_of(const SimulateOptions& options);

/// Which part of the trace the options ask for.
TraceFilter filter_of(const SimulateOptions& options);

/// Adds the outages that the options ask for, until well after the last of `jobs` should be done.
void add_outages(const SimulateOptions& options, const Cluster& cluster, const std::vector<TraceJob>& jobs,
                 SimulationRules& rules);

/// Adds how jobs recover from failures, and what policies believe of models.
void add_script(const SimulateOptions& options, Setup& setup);

/// With --reconfig plan, central or checkpoint: gives each job its model, and changes the costs that follow from it.
/// Throws Error if a job has no model.
void add_costs(const SimulateOptions& options, const Cluster& cluster, std::vector<TraceJob>& jobs,
               SimulationRules& rules);

/// What jobs held when, in the format that Perfetto and chrome://tracing read.
std::string timeline_json(const std::vector<PolicyRun>& played, const std::vector<TraceJob>& jobs,
                          const Cluster& cluster);

/// A page for browsers that needs no other file: `summary`, which --json prints, distributions, GPUs over time, and
/// jobs on hosts where they are few enough to be seen.
std::string simulation_report(const nlohmann::ordered_json& summary, const SimulateOptions& options,
                              const std::vector<PolicyRun>& played, const std::vector<TraceJob>& jobs,
                              const Cluster& cluster);

/// What --sweep accepts before its values: "load=" and so on.
std::vector<std::string> sweep_keys();

/// The options that were given and have an effect on results, as pairs of name and value.
nlohmann::ordered_json options_json(const SimulateOptions& options);

/// The numbers of one policy.
nlohmann::ordered_json summary_json(const PolicyRun& played);

/// A time that is measured on finished jobs, as a cell of `column`; "-" if no job finished.
std::string time_text(const SimulationSummary& summary, const TimeColumn& column, double time);

/// A row for each policy, for people.
std::string summary_table(const std::vector<PolicyRun>& played, const std::vector<TraceJob>& jobs);

/// The jobs as a trace of tpx, see tpx-trace(5), from which the same cluster and the same rates give the same results.
/// Durations are those with the GPUs that jobs request; jobs with known rates have their steps, too. Optional columns
/// that would be empty in all rows are omitted.
std::string trace_csv(const std::vector<TraceJob>& jobs, const Cluster& cluster);

/// A row for each policy and job, CSV.
std::string jobs_csv(const std::vector<PolicyRun>& played, const std::vector<TraceJob>& jobs);

}  // namespace tpx::cli
