// SPDX-License-Identifier: Apache-2.0
#include "cmd/simulate.hpp"

#include "cmd/output.hpp"
#include "cmd/profile.hpp"
#include "formats/trace/cluster_file.hpp"
#include "formats/trace/trace_file.hpp"
#include "lib/cluster/policies.hpp"
#include "lib/cluster/simulation.hpp"
#include "lib/cluster/speed.hpp"
#include "lib/core/error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace tpx::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view yardstick = "fifo-backfill";

// Those that were asked for, and the yardstick.
std::vector<const PolicyInfo*> policies_of(std::string_view text) {
    std::vector<const PolicyInfo*> chosen;
    const auto add = [&](std::string_view name) {
        const PolicyInfo* info = find_policy(name);
        if (!info) {
            std::vector<std::string> names;
            for (const PolicyInfo& policy : policies()) names.emplace_back(policy.name);
            throw Error{Exit::usage, "--policy: unknown policy '{}'{}; {} are known", name, did_you_mean(name, names),
                        one_of(names)};
        }
        if (std::ranges::count(chosen, info) == 0) chosen.push_back(info);
    };
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(','), text.size());
        add(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    add(yardstick);
    return chosen;
}

// Says which rows cannot be jobs: as an error, or as notes where they may be left out.
void report_bad(const formats::Trace& trace, bool skip, Output& out) {
    if (trace.bad.empty()) return;
    constexpr std::size_t most_listed = 20;
    const std::size_t others = trace.bad.size() - 1;
    if (!skip)
        throw failure("{}{}", trace.bad.front(),
                      others == 0 ? std::string{} : fmt::format(" (and {} more; --skip-bad leaves them out)", others));
    for (std::size_t i = 0; i < std::min(most_listed, trace.bad.size()); ++i) out.note("skipped {}", trace.bad[i]);
    if (trace.bad.size() > most_listed) out.note("skipped {} more rows", trace.bad.size() - most_listed);
}

Played play(const PolicyInfo& info, const Cluster& cluster, const std::vector<TraceJob>& jobs, const Rules& rules) {
    const std::unique_ptr<Policy> policy = info.make();
    try {
        Results results = Simulation{cluster, jobs, rules}.run(*policy);
        const Summary summary = summarise(cluster, jobs, results);
        return {std::string{info.name}, std::move(results), summary};
    } catch (Error& error) {
        error.prepend(info.name);
        throw;
    }
}

double gpu_hours(const std::vector<TraceJob>& jobs, const Cluster& cluster) {
    double hours = 0;
    for (const TraceJob& job : jobs) hours += job.work / full_rate(job, cluster) * job.gpus / 3600e6;
    return hours;
}

ordered_json to_json(const SimulateOptions& options, const formats::Trace& trace, const Cluster& cluster,
                     const std::vector<Played>& played) {
    ordered_json json{{"trace", options.trace},
                      {"format", trace.format},
                      {"jobs", trace.jobs.size()},
                      {"skipped", trace.bad.size()},
                      {"gpus", cluster.gpus()},
                      {"hosts", cluster.hosts.size()},
                      {"gpu_hours", gpu_hours(trace.jobs, cluster)}};
    for (const Played& one : played) json["policies"].push_back(summary_json(one));
    return json;
}

}  // namespace

void run_simulate(const SimulateOptions& options, Output& out) {
    if (!is_first_rank()) return;
    const std::vector<const PolicyInfo*> chosen = policies_of(options.policies);
    Rules rules = rules_of(options);
    const TraceFilter filter = filter_of(options);
    const Cluster cluster = formats::read_cluster(options.cluster);
    const formats::SpeedBook speeds =
        options.speeds.empty() ? formats::SpeedBook{} : formats::read_speeds(options.speeds, cluster);
    formats::Trace trace = formats::read_trace(options.trace, cluster, speeds);
    report_bad(trace, options.skip_bad, out);
    trace.jobs = filtered(std::move(trace.jobs), filter);
    if (trace.jobs.empty()) throw failure("{}: no jobs in it", options.trace);
    add_outages(options, cluster, trace.jobs, rules);
    add_costs(options, cluster, trace.jobs, rules);
    rules.segments = !options.timeline.empty() || !options.report.empty();
    std::vector<Played> played;
    for (const PolicyInfo* info : chosen) played.push_back(play(*info, cluster, trace.jobs, rules));
    if (!options.jobs.empty()) write_text(options.jobs, jobs_csv(played, trace.jobs));
    if (!options.timeline.empty()) write_text(options.timeline, timeline_json(played, trace.jobs, cluster));
    const ordered_json json = to_json(options, trace, cluster, played);
    if (!options.report.empty()) write_text(options.report, simulation_report(json, played, trace.jobs, cluster));
    if (out.json()) return out.object("tpx.simulate/1", json);
    const auto plural = [](std::size_t count, std::string_view noun) {
        return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
    };
    out.result("{}, {:.4g} GPU-hours of work as asked for, on {} of {}\n\n{}", plural(trace.jobs.size(), "job"),
               gpu_hours(trace.jobs, cluster), plural(cluster.gpus(), "GPU"), plural(cluster.hosts.size(), "host"),
               summary_table(played));
}

}  // namespace tpx::cli
