// SPDX-License-Identifier: Apache-2.0
#include "cmd/output/html_page.hpp"
#include "cmd/simulate/simulate.hpp"
#include "lib/cluster/usage.hpp"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
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

ordered_json usage_json(const Played& played, Time begin, Time end) {
    ordered_json held = ordered_json::array(), training = ordered_json::array();
    for (const Usage& usage : usage_over_time(played.results.segments, begin, end, stretches)) {
        held.push_back(usage.held);
        training.push_back(usage.training);
    }
    return {{"held", std::move(held)}, {"training", std::move(training)}};
}

// [job, begin, end, training, [[host, GPUs], ...]], times in seconds; nothing where they are too many to be seen.
ordered_json slices_json(const Played& played) {
    auto slices = ordered_json::array();
    std::size_t count = 0;
    for (const Segment& segment : played.results.segments) count += segment.grant.parts.size();
    if (count > most_slices) return slices;
    for (const Segment& segment : played.results.segments) {
        auto parts = ordered_json::array();
        for (const GpuShare& share : segment.grant.parts) parts.push_back({share.host, share.gpus});
        slices.push_back({segment.job, seconds_of(segment.begin), seconds_of(segment.end), segment.training ? 1 : 0,
                          std::move(parts)});
    }
    return slices;
}

}  // namespace

ordered_json given_options(const SimulateOptions& options) {
    using Given = std::pair<std::string_view, std::string SimulateOptions::*>;
    static constexpr std::array all{Given{"--cluster", &SimulateOptions::cluster},
                                    Given{"--speeds", &SimulateOptions::speeds},
                                    Given{"--quantum", &SimulateOptions::quantum},
                                    Given{"--reconfig", &SimulateOptions::reconfig},
                                    Given{"--models", &SimulateOptions::models},
                                    Given{"--hardware", &SimulateOptions::hardware},
                                    Given{"--restart", &SimulateOptions::restart},
                                    Given{"--delays", &SimulateOptions::delays},
                                    Given{"--generate", &SimulateOptions::generate},
                                    Given{"--window", &SimulateOptions::window},
                                    Given{"--load", &SimulateOptions::load},
                                    Given{"--sample", &SimulateOptions::sample},
                                    Given{"--seed", &SimulateOptions::seed},
                                    Given{"--elastic", &SimulateOptions::elastic},
                                    Given{"--outages", &SimulateOptions::outages},
                                    Given{"--mtbf", &SimulateOptions::mtbf},
                                    Given{"--repair", &SimulateOptions::repair},
                                    Given{"--checkpoint", &SimulateOptions::checkpoint},
                                    Given{"--recover", &SimulateOptions::recover},
                                    Given{"--events", &SimulateOptions::events},
                                    Given{"--model-error", &SimulateOptions::model_error},
                                    Given{"--refit", &SimulateOptions::refit}};
    ordered_json given = ordered_json::array();
    for (const auto& [name, value] : all) {
        if (!(options.*value).empty()) given.push_back(ordered_json::array({name, options.*value}));
        if (name == "--cluster" && !options.policies.empty())
            given.push_back(ordered_json::array({"--policy", fmt::format("{}", fmt::join(options.policies, ","))}));
    }
    for (const auto& [name, list] : {std::pair{"--without", &options.without}, {"--only", &options.only}})
        for (const auto& value : *list) given.push_back(ordered_json::array({name, value}));
    if (options.skip_bad) given.push_back(ordered_json::array({"--skip-bad", ""}));
    return given;
}

std::string simulation_report(const ordered_json& summary, const SimulateOptions& options,
                              const std::vector<Played>& played, const std::vector<TraceJob>& jobs,
                              const Cluster& cluster) {
    ordered_json data = summary;
    data["options"] = given_options(options);
    for (const TraceJob& job : jobs) data["names"].push_back(job.name);
    for (const ClusterHost& host : cluster.hosts) data["places"].push_back({host.name, host.gpus});
    Time end = 1;
    for (const Played& one : played) end = std::max(end, one.results.end);
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
                        .scripts = {"base.js", "table.js", "figure.js", "simulate.js"}};
    return html_page(page, data);
}

}  // namespace tpx::cli
