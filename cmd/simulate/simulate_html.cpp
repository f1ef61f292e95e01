// SPDX-License-Identifier: Apache-2.0
#include "cmd/output/html_page.hpp"
#include "cmd/simulate/simulate.hpp"
#include "lib/cluster/usage.hpp"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace tpx::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t most_slices = 4000;  // of a chart of hosts
constexpr std::size_t most_points = 400;   // of a distribution
constexpr int stretches = 240;             // of GPUs over time

// Values at evenly spaced ranks of the sorted ones, the least and the largest among them.
ordered_json distribution(std::vector<double> values) {
    std::ranges::sort(values);
    auto points = ordered_json::array();
    const std::size_t count = std::min(values.size(), most_points);
    for (std::size_t i = 0; i < count; ++i)
        points.push_back(values[count == 1 ? 0 : i * (values.size() - 1) / (count - 1)]);
    return points;
}

ordered_json usage_json(const PolicyRun& played, Time begin, Time end) {
    ordered_json held = ordered_json::array(), training = ordered_json::array();
    for (const Usage& usage : usage_over_time(played.results.segments, begin, end, stretches)) {
        held.push_back(usage.held);
        training.push_back(usage.training);
    }
    return {{"held", std::move(held)}, {"training", std::move(training)}};
}

// [job, begin, end, training, [[host, GPUs], ...]], times in seconds; nothing where they are too many to be seen.
ordered_json slices_json(const PolicyRun& played) {
    auto slices = ordered_json::array();
    std::size_t count = 0;
    for (const JobSegment& segment : played.results.segments) count += segment.grant.parts.size();
    if (count > most_slices) return slices;
    for (const JobSegment& segment : played.results.segments) {
        auto parts = ordered_json::array();
        for (const GpuShare& share : segment.grant.parts) parts.push_back({share.host, share.gpus});
        slices.push_back({segment.job, seconds_of(segment.begin), seconds_of(segment.end), segment.training ? 1 : 0,
                          std::move(parts)});
    }
    return slices;
}

// The value of an option as the command line accepts it; empty if the option is not set.
std::string text_of(const std::string& text) { return text; }

template <class Number>
std::string text_of(const std::optional<Number>& number) {
    return number ? fmt::format("{}", *number) : "";
}

std::string text_of(const Duration& time) {
    if (!time) return "";
    for (const auto& [unit, seconds] : {std::pair{"d", 86400.0}, {"h", 3600.0}, {"min", 60.0}})
        if (*time > 0 && std::fmod(*time, seconds) == 0) return fmt::format("{}{}", *time / seconds, unit);
    return fmt::format("{}s", *time);
}

}  // namespace

ordered_json options_json(const SimulateOptions& options) {
    const std::pair<std::string_view, std::string> all[] = {
        {"--cluster", text_of(options.cluster)},
        {"--speeds", text_of(options.speeds)},
        {"--quantum", text_of(options.quantum)},
        {"--reconfig", text_of(options.reconfig)},
        {"--models", text_of(options.models)},
        {"--hardware", text_of(options.hardware)},
        {"--restart", text_of(options.restart)},
        {"--delays", text_of(options.delays)},
        {"--generate", text_of(options.generate)},
        {"--window", text_of(options.window)},
        {"--load", text_of(options.load)},
        {"--sample", text_of(options.sample)},
        {"--seed", text_of(options.seed)},
        {"--elastic", text_of(options.elastic)},
        {"--outages", text_of(options.outages)},
        {"--mtbf", text_of(options.mtbf)},
        {"--repair", text_of(options.repair)},
        {"--checkpoint", text_of(options.checkpoint)},
        {"--recover", text_of(options.recover)},
        {"--events", text_of(options.events)},
        {"--model-error", text_of(options.model_error)},
        {"--refit", text_of(options.refit)},
        {"--sweep", text_of(options.sweep)},
    };
    ordered_json given = ordered_json::array();
    for (const auto& [name, value] : all) {
        if (!value.empty()) given.push_back(ordered_json::array({name, value}));
        if (name == "--cluster" && !options.policies.empty())
            given.push_back(ordered_json::array({"--policy", fmt::format("{}", fmt::join(options.policies, ","))}));
    }
    for (const auto& [name, list] : {std::pair{"--without", &options.without}, {"--only", &options.only}})
        for (const auto& value : *list) given.push_back(ordered_json::array({name, value}));
    if (options.skip_bad) given.push_back(ordered_json::array({"--skip-bad", ""}));
    return given;
}

std::string simulation_report(const ordered_json& summary, const SimulateOptions& options,
                              const std::vector<PolicyRun>& played, const std::vector<TraceJob>& jobs,
                              const Cluster& cluster) {
    ordered_json data = summary;
    data["options"] = options_json(options);
    for (const TraceJob& job : jobs) data["names"].push_back(job.name);
    for (const ClusterHost& host : cluster.hosts) data["places"].push_back({host.name, host.gpus});
    Time end = 1;
    for (const PolicyRun& one : played) end = std::max(end, one.results.end);
    data["begin"] = seconds_of(jobs.front().arrival);
    data["end"] = seconds_of(end);
    for (std::size_t i = 0; i < played.size(); ++i) {
        std::vector<double> times;
        for (const JobResult& job : played[i].results.jobs)
            if (job.finish != never) times.push_back(seconds_of(job.finish - job.arrival));
        ordered_json& policy = data["policies"][i];
        policy["distribution"] = distribution(std::move(times));
        policy["usage"] = usage_json(played[i], jobs.front().arrival, end);
        policy["slices"] = slices_json(played[i]);
    }
    const HtmlPage page{.title = "tpx simulate",
                        .body = "simulate.html",
                        .styles = {"base.css", "simulate.css"},
                        .scripts = {"base.js", "table.js", "figure.js", "policies.js", "simulate.js"}};
    return html_page(page, data);
}

}  // namespace tpx::cli
