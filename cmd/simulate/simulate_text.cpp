// SPDX-License-Identifier: Apache-2.0
#include "cmd/simulate/simulate.hpp"
#include "cmd/simulate/time_column.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/units.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace tpx::cli {
namespace {

// Seconds to the microsecond; empty for what never happened.
std::string seconds_field(Time time) { return time == never ? "" : fmt::format("{:.6f}", seconds_of(time)); }

// The first jobs that `played` left unfinished.
std::string unfinished_names(const PolicyRun& played, const std::vector<TraceJob>& jobs) {
    constexpr std::size_t most = 5;
    std::vector<std::string> names;
    for (std::size_t id = 0; id < played.results.jobs.size() && names.size() < most; ++id)
        if (played.results.jobs[id].finish == never) names.push_back(fmt::format("'{}'", jobs[id].name));
    const std::size_t more = played.summary.unfinished - names.size();
    return fmt::format("{}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

/// `time` in seconds, or null where no job was there to measure it on.
nlohmann::ordered_json number_or_null(bool measured, double time) {
    return measured ? nlohmann::ordered_json(time) : nlohmann::ordered_json(nullptr);
}

// A row for each policy and class, if jobs are of both classes.
std::string classes_table(const std::vector<PolicyRun>& played) {
    if (played.empty() || played[0].summary.classes.empty()) return {};
    std::string text = fmt::format("\n{:<14} {:<11} {:>6} {:>12} {:>12} {:>12} {:>12}\n", "policy", "class", "jobs",
                                   "mean JCT", "median", "P99", "mean queue");
    std::vector<SimulationSummary::Class> all;
    for (const PolicyRun& one : played) all.insert(all.end(), one.summary.classes.begin(), one.summary.classes.end());
    const auto column = [&](double SimulationSummary::Class::*time) {
        return time_column(std::span<const SimulationSummary::Class>{all},
                           [time](const SimulationSummary::Class& is) { return is.*time; });
    };
    const TimeColumn mean = column(&SimulationSummary::Class::mean_jct),
                     median = column(&SimulationSummary::Class::median_jct),
                     p99 = column(&SimulationSummary::Class::p99_jct),
                     mean_queueing = column(&SimulationSummary::Class::mean_queueing);
    for (const PolicyRun& one : played) {
        for (const SimulationSummary::Class& is : one.summary.classes) {
            const auto time = [&](const TimeColumn& times, double seconds) {
                return is.finished > 0 ? times.text(seconds) : "-";
            };
            const std::string queueing = is.started > 0 ? mean_queueing.text(is.mean_queueing) : "-";
            text += fmt::format("{:<14} {:<11} {:>6} {:>12} {:>12} {:>12} {:>12}\n", one.policy,
                                is.guaranteed ? "guaranteed" : "best-effort", is.jobs, time(mean, is.mean_jct),
                                time(median, is.median_jct), time(p99, is.p99_jct), queueing);
        }
    }
    return text;
}

// A field of CSV (RFC 4180).
std::string field(const std::string& text) {
    if (text.find_first_of(",\"\n\r") == text.npos) return text;
    std::string quoted = "\"";
    for (const char sign : text) quoted += sign == '"' ? std::string("\"\"") : std::string(1, sign);
    return quoted + '"';
}

}  // namespace

nlohmann::ordered_json summary_json(const PolicyRun& played) {
    const SimulationSummary& is = played.summary;
    const bool started = is.started > 0, finished = is.unfinished < is.jobs;
    nlohmann::ordered_json json{{"policy", played.policy},
                                {"jobs", is.jobs},
                                {"unfinished", is.unfinished},
                                {"mean_jct", number_or_null(finished, is.mean_jct)},
                                {"median_jct", number_or_null(finished, is.median_jct)},
                                {"p99_jct", number_or_null(finished, is.p99_jct)},
                                {"mean_queueing", number_or_null(started, is.mean_queueing)},
                                {"median_queueing", number_or_null(started, is.median_queueing)},
                                {"p99_queueing", number_or_null(started, is.p99_queueing)},
                                {"makespan", is.makespan},
                                {"held", is.held},
                                {"worked", is.worked},
                                {"trained", is.trained},
                                {"changes", is.changes},
                                {"stops", is.stops},
                                {"lost_gpu_hours", is.lost},
                                {"paused", is.paused},
                                {"moved_bytes", is.moved},
                                {"slowdown", is.slowdown},
                                {"fairness", is.fairness},
                                {"deadlines", is.deadlines},
                                {"deadlines_kept", is.kept},
                                {"events", played.results.events}};
    for (const SimulationSummary::Class& one : is.classes)
        json["classes"].push_back({{"guaranteed", one.guaranteed},
                                   {"jobs", one.jobs},
                                   {"unfinished", one.jobs - one.finished},
                                   {"mean_jct", number_or_null(one.finished > 0, one.mean_jct)},
                                   {"median_jct", number_or_null(one.finished > 0, one.median_jct)},
                                   {"p99_jct", number_or_null(one.finished > 0, one.p99_jct)},
                                   {"mean_queueing", number_or_null(one.started > 0, one.mean_queueing)}});
    return json;
}

std::string time_text(const SimulationSummary& summary, const TimeColumn& column, double time) {
    return summary.unfinished < summary.jobs ? column.text(time) : "-";
}

std::string summary_table(const std::vector<PolicyRun>& played, const std::vector<TraceJob>& jobs) {
    std::string text = fmt::format("{:<14} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}\n", "policy", "mean JCT", "median",
                                   "P99", "mean queue", "median", "makespan");
    const auto column = [&](double SimulationSummary::*time) {
        return time_column(std::span{played}, [time](const PolicyRun& one) { return one.summary.*time; });
    };
    const TimeColumn mean = column(&SimulationSummary::mean_jct), median = column(&SimulationSummary::median_jct),
                     p99 = column(&SimulationSummary::p99_jct),
                     mean_queueing = column(&SimulationSummary::mean_queueing),
                     median_queueing = column(&SimulationSummary::median_queueing),
                     makespan = column(&SimulationSummary::makespan);
    for (const PolicyRun& one : played) {
        const SimulationSummary& is = one.summary;
        const bool started = is.started > 0;
        text += fmt::format("{:<14} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}\n", one.policy,
                            time_text(is, mean, is.mean_jct), time_text(is, median, is.median_jct),
                            time_text(is, p99, is.p99_jct), started ? mean_queueing.text(is.mean_queueing) : "-",
                            started ? median_queueing.text(is.median_queueing) : "-", makespan.text(is.makespan));
    }
    text += fmt::format("\n{:<14} {:>12} {:>12} {:>12} {:>8} {:>11} {:>12} {:>9}\n", "policy", "allocated", "running",
                        "training", "resizes", "preemptions", "lost GPU-h", "fairness");
    for (const PolicyRun& one : played) {
        const SimulationSummary& is = one.summary;
        text +=
            fmt::format("{:<14} {:>10.2f} % {:>10.2f} % {:>10.2f} % {:>8} {:>11} {:>12.4g} {:>9.3f}\n", one.policy,
                        100 * is.held, 100 * is.worked, 100 * is.trained, is.changes, is.stops, is.lost, is.fairness);
    }
    const auto some = [&](auto member) {
        return std::ranges::any_of(played, [&](const PolicyRun& one) { return one.summary.*member > 0; });
    };
    if (some(&SimulationSummary::moved)) text += '\n';
    for (const PolicyRun& one : played)
        if (some(&SimulationSummary::moved))
            text += fmt::format("{:<14} moves {} to resize and restart jobs, in {:.4g} hours\n", one.policy,
                                format_bytes(one.summary.moved), one.summary.paused / 3600);
    if (some(&SimulationSummary::deadlines)) text += '\n';
    for (const PolicyRun& one : played)
        if (some(&SimulationSummary::deadlines))
            text += fmt::format("{:<14} meets {} of {}\n", one.policy, one.summary.kept,
                                counted(one.summary.deadlines, "deadline"));
    text += classes_table(played);
    if (some(&SimulationSummary::unfinished)) text += '\n';
    for (const PolicyRun& one : played)
        if (one.summary.unfinished > 0)
            text += fmt::format("{:<14} {} of {} did not finish: {}; times are those of finished jobs\n", one.policy,
                                one.summary.unfinished, counted(one.summary.jobs, "job"), unfinished_names(one, jobs));
    return text;
}

std::string jobs_csv(const std::vector<PolicyRun>& played, const std::vector<TraceJob>& jobs) {
    std::string text =
        "policy,job,gpus,arrival,start,finish,jct,queueing,held_gpu_seconds,training_gpu_seconds,lost_gpu_seconds,"
        "changes,stops\n";
    for (const PolicyRun& one : played) {
        for (std::size_t id = 0; id < jobs.size(); ++id) {
            const JobResult& is = one.results.jobs[id];
            const auto since = [&](Time time) { return time == never ? never : time - is.arrival; };
            text +=
                fmt::format("{},{},{},{},{},{},{},{},{:.6f},{:.6f},{:.6f},{},{}\n", one.policy, field(jobs[id].name),
                            jobs[id].gpus, seconds_field(is.arrival), seconds_field(is.start), seconds_field(is.finish),
                            seconds_field(since(is.finish)), seconds_field(since(is.start)), is.held / 1e6,
                            is.trained / 1e6, is.lost / 1e6, is.changes, is.stops);
        }
    }
    return text;
}

}  // namespace tpx::cli
