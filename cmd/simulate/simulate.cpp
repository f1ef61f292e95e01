// SPDX-License-Identifier: Apache-2.0
#include "cmd/simulate/simulate.hpp"

#include "cmd/cli/shared_options.hpp"
#include "cmd/output/output.hpp"
#include "cmd/output/output_file.hpp"
#include "cmd/output/progress.hpp"
#include "cmd/profile/profile.hpp"
#include "formats/files/trace/cluster_file.hpp"
#include "formats/files/trace/events_file.hpp"
#include "lib/cluster/generate_trace.hpp"
#include "lib/cluster/model_error.hpp"
#include "lib/cluster/policies.hpp"
#include "lib/cluster/simulation.hpp"
#include "lib/cluster/speed.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/nearest.hpp"
#include "lib/core/write_file.hpp"
#include "lib/model/techniques.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace tpx::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view yardstick = "fifo-backfill";

// The requested policies, and the yardstick.
std::vector<const PolicyInfo*> policies_of(std::vector<std::string> names) {
    names.emplace_back(yardstick);
    std::vector<const PolicyInfo*> chosen;
    for (const std::string& name : names) {
        const PolicyInfo* info = find_policy(name);
        if (std::ranges::count(chosen, info) == 0) chosen.push_back(info);
    }
    return chosen;
}

// Says which rows cannot be jobs: as an error, or as notes where they may be left out.
void report_bad(const formats::ParsedTrace& trace, bool skip, Output& out) {
    if (trace.bad.empty()) return;
    constexpr std::size_t most_listed = 20;
    const std::size_t others = trace.bad.size() - 1;
    if (!skip)
        throw failure("{}{}", trace.bad.front(),
                      others == 0 ? std::string{} : fmt::format(" (and {} more; --skip-bad skips them)", others));
    for (std::size_t i = 0; i < std::min(most_listed, trace.bad.size()); ++i) out.note("skipped {}", trace.bad[i]);
    if (trace.bad.size() > most_listed) out.note("skipped {} more rows", trace.bad.size() - most_listed);
}

// A column that nothing uses is noted; one that is hardly spelled otherwise than a known one is an error.
void report_unknown_columns(const formats::ParsedTrace& trace, const std::string& file, Output& out) {
    for (const std::string& column : trace.unknown_columns) {
        if (const std::string meant = did_you_mean(column, trace.known_columns); !meant.empty())
            throw failure("{}: unknown column '{}'{}", file, column, meant);
        out.note("{}: column '{}' is not used", file, column);
    }
}

// Throws Error where no job is left, and says why.
void filter_jobs(const SimulateOptions& options, std::vector<TraceJob>& jobs, std::vector<ScriptedEvent>& script) {
    if (jobs.empty()) throw failure("{}: the trace has no jobs", trace_name(options));
    const TraceFilter filter = filter_of(options);
    const std::size_t all = jobs.size();
    const double last = seconds_of(jobs.back().arrival) / 3600;
    const std::vector<TraceJob> whole = script.empty() ? std::vector<TraceJob>{} : jobs;
    jobs = filtered(std::move(jobs), filter);
    script = filtered(std::move(script), whole, jobs, filter);
    if (!jobs.empty()) return;
    const bool window = filter.window.has_value(), sample = filter.sample < 1;
    throw failure("{}: {}{}{} leave{} none of {}, arriving from 0h to {:.4g}h", trace_name(options),
                  window ? "--window " + options.window : "", window && sample ? " and " : "",
                  sample ? fmt::format("--sample {}", filter.sample) : "", window && sample ? "" : "s",
                  counted(all, "job"), last);
}

// Excludes plans from the policies' choice. A job may always use the plan that the trace gives.
void exclude_techniques(const SimulateOptions& options, formats::JobSpeeds& speeds, Output& out) {
    const std::vector<std::string_view> excluded = excluded_techniques(options, techniques);
    if (excluded.empty()) return;
    const std::string_view option = options.without.empty() ? "--only" : "--without";
    if (!options.generate.empty())
        throw Error{Exit::usage, "{}: random jobs have one plan each; use a TRACE with --speeds", option};
    if (speeds.exclude(excluded) == 0)
        throw Error{Exit::usage,
                    "{}: no model with several plans; pass --speeds with step times per plan, see tpx-trace(5)",
                    option};
    out.note("policies do not choose plans with {}", one_of({excluded.begin(), excluded.end()}));
}

double gpu_hours(const std::vector<TraceJob>& jobs, const Cluster& cluster) {
    const GpuPool empty{cluster};
    double hours = 0;
    for (const TraceJob& job : jobs) hours += job.work / full_rate(job, cluster, empty) * job.gpus / 3600e6;
    return hours;
}

ordered_json simulation_json(const SimulateOptions& options, const Setup& setup, const std::vector<PolicyRun>& played) {
    const formats::ParsedTrace& trace = setup.trace;
    const Cluster& cluster = setup.cluster;
    ordered_json json{{"trace", trace_name(options)},
                      {"format", trace.format},
                      {"jobs", trace.jobs.size()},
                      {"skipped", trace.bad.size()},
                      {"gpus", cluster.gpus()},
                      {"hosts", cluster.hosts.size()},
                      {"gpu_hours", gpu_hours(trace.jobs, cluster)}};
    for (const PolicyRun& one : played) {
        json["policies"].push_back(summary_json(one));
        for (std::size_t id = 0; one.summary.unfinished > 0 && id < trace.jobs.size(); ++id)
            if (one.results.jobs[id].finish == never)
                json["policies"].back()["unfinished_jobs"].push_back(trace.jobs[id].name);
    }
    return json;
}

}  // namespace

std::string trace_name(const SimulateOptions& options) {
    return options.generate.empty() ? options.trace : options.generate;
}

PolicyRun play(const PolicyInfo& info, const Setup& setup, const std::function<void(int)>& progress) {
    const std::unique_ptr<Policy> policy = info.make();
    try {
        const std::vector<TraceJob>& jobs = setup.trace.jobs;
        const std::vector<TraceJob> believed =
            setup.model_error > 0 ? with_model_error(jobs, setup.model_error, setup.seed) : std::vector<TraceJob>{};
        Simulation simulation{setup.cluster, believed.empty() ? jobs : believed, setup.rules};
        SimulationResults results = simulation.run(*policy, progress);
        const SimulationSummary summary = summarize(setup.cluster, jobs, results);
        return {std::string{info.name}, std::move(results), summary};
    } catch (Error& error) {
        error.prepend(info.name);
        throw;
    }
}

Setup setup_of(const SimulateOptions& options, Output& out) {
    Setup setup{.cluster = formats::read_cluster(options.cluster),
                .speeds = {},
                .trace = {},
                .rules = simulation_rules_of(options)};
    if (!options.speeds.empty()) setup.speeds = formats::read_speeds(options.speeds, setup.cluster);
    exclude_techniques(options, setup.speeds, out);
    if (!options.generate.empty()) {
        setup.trace = {"random", generate_trace(recipe_of(options), setup.cluster), {}};
        if (const auto elasticity = elasticity_of(options))
            for (TraceJob& job : setup.trace.jobs) set_limits(job, *elasticity);
    } else {
        for (const std::string& file : setup.speeds.assumed)
            out.note("{}: not fitted to runs; the speed of common hardware is assumed", file);
        setup.trace = formats::read_trace(options.trace, setup.cluster, setup.speeds, elasticity_of(options));
        report_unknown_columns(setup.trace, options.trace, out);
        report_bad(setup.trace, options.skip_bad, out);
        for (const std::string& note : setup.trace.notes) out.note("{}: {}", options.trace, note);
    }
    if (!options.events.empty())
        setup.rules.script = formats::read_events(options.events, setup.cluster, setup.trace.jobs);
    filter_jobs(options, setup.trace.jobs, setup.rules.script);
    add_outages(options, setup.cluster, setup.trace.jobs, setup.rules);
    add_costs(options, setup.cluster, setup.trace.jobs, setup.rules);
    add_script(options, setup);
    setup.rules.segments = !options.timeline.empty() || !options.report.empty();
    return setup;
}

void run_simulate(const SimulateOptions& options, Output& out) {
    if (!is_first_rank()) return;
    if (!options.generate.empty() && !options.trace.empty())
        throw Error{Exit::usage, "TRACE and --generate exclude each other"};
    if (!options.generate.empty() && !options.speeds.empty())
        throw Error{Exit::usage,
                    "--speeds and --generate exclude each other: random jobs have no model; write them with "
                    "--write-trace, add a column 'model', and simulate that trace with --speeds"};
    const std::vector<const PolicyInfo*> chosen = policies_of(options.policies);
    if (!options.sweep.empty()) return run_sweep(options, chosen, out);
    const ReadRecord record;
    const Setup setup = setup_of(options, out);
    check_outputs_apart({{"--write-trace", options.write_trace},
                         {"--jobs", options.jobs},
                         {"--timeline", options.timeline},
                         {"--report", options.report}},
                        record);
    const std::vector<TraceJob>& jobs = setup.trace.jobs;
    if (!options.write_trace.empty()) write_file(options.write_trace, trace_csv(jobs, setup.cluster));
    std::vector<PolicyRun> played;
    for (const PolicyInfo* info : chosen) {
        Progress progress{out, info->name, jobs.size(), ProgressUnit::jobs};
        played.push_back(play(*info, setup, [&](int finished) { progress.update(static_cast<unsigned>(finished)); }));
    }
    if (!options.jobs.empty()) write_file(options.jobs, jobs_csv(played, jobs));
    if (!options.timeline.empty()) write_file(options.timeline, timeline_json(played, jobs, setup.cluster));
    const ordered_json json = simulation_json(options, setup, played);
    if (!options.report.empty())
        write_file(options.report, simulation_report(json, options, played, jobs, setup.cluster));
    if (out.json()) return out.object("tpx.simulate/1", json);
    out.result("{}, {:.4g} GPU-hours requested, on {} of {}\n\n{}", counted(jobs.size(), "job"),
               gpu_hours(jobs, setup.cluster), counted(setup.cluster.gpus(), "GPU"),
               counted(setup.cluster.hosts.size(), "host"), summary_table(played, jobs));
}

}  // namespace tpx::cli
