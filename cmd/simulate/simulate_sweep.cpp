// SPDX-License-Identifier: Apache-2.0
#include "cmd/output/html_page.hpp"
#include "cmd/output/output.hpp"
#include "cmd/output/output_file.hpp"
#include "cmd/output/progress.hpp"
#include "cmd/profile/profile.hpp"
#include "cmd/simulate/simulate.hpp"
#include "cmd/simulate/time_column.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/nearest.hpp"
#include "lib/core/units.hpp"
#include "lib/core/write_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

namespace tpx::cli {
namespace {

using nlohmann::ordered_json;

// The options that --sweep can vary.
const std::vector<std::string> keys{"load",    "sample", "seed",   "quantum", "reconfig",
                                    "restart", "mtbf",   "repair", "cluster", "checkpoint"};

struct Point {
    std::string value;
    SimulateOptions options;
    Setup setup;
    std::vector<PolicyRun> played;  // without the results of single jobs
};

// One simulation for each value. Reads no input file.
std::vector<Point> points_of(const SimulateOptions& options) {
    const std::size_t equals = std::min(options.sweep.find('='), options.sweep.size());
    const std::string_view name = std::string_view{options.sweep}.substr(0, equals);
    if (std::ranges::count(keys, name) == 0)
        throw Error{Exit::usage, "--sweep: unknown option '{}'; use {}{}", name, one_of(keys),
                    did_you_mean(name, keys)};
    std::vector<Point> points;
    std::string_view rest = std::string_view{options.sweep}.substr(std::min(equals + 1, options.sweep.size()));
    while (!rest.empty()) {
        const std::size_t end = std::min(rest.find(','), rest.size());
        Point point{std::string{rest.substr(0, end)}, options, {}, {}};
        set_option(point.options, fmt::format("--{}", name), point.value);
        point.options.report.clear();  // what it takes is not kept
        points.push_back(std::move(point));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    if (points.empty()) throw Error{Exit::usage, "--sweep: '{}' has no values, as in load=1,2,4", options.sweep};
    return points;
}

// Jobs that have finished, of all points together.
class Together {
public:
    explicit Together(Progress& progress) : progress_{progress} {}

    void add(int more) {
        const std::lock_guard lock{mutex_};
        progress_.update(done_ += static_cast<unsigned>(more));
    }

private:
    std::mutex mutex_;
    Progress& progress_;
    std::uint64_t done_ = 0;
};

void play(Point& point, std::span<const PolicyInfo* const> chosen, Together& together) {
    for (const PolicyInfo* info : chosen) {
        int last = 0;
        const auto progress = [&](int finished) {
            constexpr int often = 100;
            if (finished - last >= often) together.add(finished - std::exchange(last, finished));
        };
        PolicyRun played = cli::play(*info, point.setup, progress);
        together.add(static_cast<int>(point.setup.trace.jobs.size()) - last);
        played.results = {};
        point.played.push_back(std::move(played));
    }
}

// Each point is played by one thread: what jobs share, such as step times, belongs to a point.
void play_all(std::vector<Point>& points, std::span<const PolicyInfo* const> chosen, Output& out) {
    std::size_t jobs = 0;
    for (const Point& point : points) jobs += point.setup.trace.jobs.size() * chosen.size();
    Progress progress{out, "sweep", jobs, ProgressUnit::jobs};
    Together together{progress};
    std::vector<std::exception_ptr> failed(points.size());
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
        for (std::size_t i = next++; i < points.size(); i = next++) {
            try {
                play(points[i], chosen, together);
            } catch (...) {
                failed[i] = std::current_exception();
            }
        }
    };
    std::vector<std::jthread> threads;
    const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
    for (std::size_t i = 1; i < std::min(cores, points.size()); ++i) threads.emplace_back(work);
    work();
    threads.clear();
    for (const std::exception_ptr& failure : failed)
        if (failure) std::rethrow_exception(failure);
}

ordered_json sweep_json(const SimulateOptions& options, const std::vector<Point>& points) {
    ordered_json json{{"trace", trace_name(options)}, {"key", options.sweep.substr(0, options.sweep.find('='))}};
    for (const Point& point : points) {
        ordered_json one{{"value", point.value}, {"jobs", point.setup.trace.jobs.size()}};
        for (const PolicyRun& played : point.played) one["policies"].push_back(summary_json(played));
        json["points"].push_back(std::move(one));
    }
    return json;
}

std::string table(const SimulateOptions& options, const std::vector<Point>& points) {
    std::string text = fmt::format("{:<12} {:<14} {:>12} {:>12} {:>12} {:>12} {:>8} {:>8} {:>12}\n",
                                   options.sweep.substr(0, options.sweep.find('=')), "policy", "mean JCT", "median",
                                   "P99", "makespan", "training", "resizes", "lost GPU-h");
    std::vector<SimulationSummary> all;
    for (const Point& point : points)
        for (const PolicyRun& one : point.played) all.push_back(one.summary);
    const auto column = [&](double SimulationSummary::*time) {
        return time_column(std::span<const SimulationSummary>{all},
                           [time](const SimulationSummary& is) { return is.*time; });
    };
    const TimeColumn mean = column(&SimulationSummary::mean_jct), median = column(&SimulationSummary::median_jct),
                     p99 = column(&SimulationSummary::p99_jct), makespan = column(&SimulationSummary::makespan);
    for (const Point& point : points) {
        for (const PolicyRun& one : point.played) {
            const SimulationSummary& is = one.summary;
            text += fmt::format("{:<12} {:<14} {:>12} {:>12} {:>12} {:>12} {:>6.2f} % {:>8} {:>12.4g}\n", point.value,
                                one.policy, time_text(is, mean, is.mean_jct), time_text(is, median, is.median_jct),
                                time_text(is, p99, is.p99_jct), makespan.text(is.makespan), 100 * is.trained,
                                is.changes, is.lost);
        }
    }
    for (const Point& point : points)
        for (const PolicyRun& one : point.played)
            if (one.summary.unfinished > 0)
                text += fmt::format("\n{:<12} {:<14} leaves {} of {} unfinished; times are those of the other jobs",
                                    point.value, one.policy, one.summary.unfinished, counted(one.summary.jobs, "job"));
    return text;
}

}  // namespace

std::vector<std::string> sweep_keys() {
    std::vector<std::string> names;
    for (const std::string& key : keys) names.push_back(fmt::format("{}=", key));
    return names;
}

void run_sweep(const SimulateOptions& options, std::span<const PolicyInfo* const> chosen, Output& out) {
    for (const auto& [value, name] : {std::pair{&options.jobs, "--jobs"},
                                      {&options.timeline, "--timeline"},
                                      {&options.write_trace, "--write-trace"}})
        if (!value->empty()) throw Error{Exit::usage, "{} and --sweep exclude each other", name};
    const ReadRecord record;
    std::vector<Point> points = points_of(options);
    for (Point& point : points) point.setup = setup_of(point.options, out);
    check_outputs_apart({{"--report", options.report}}, record);
    play_all(points, chosen, out);
    const ordered_json json = sweep_json(options, points);
    if (!options.report.empty()) {
        ordered_json data = json;
        data["options"] = options_json(options);
        const HtmlPage page{.title = "tpx simulate",
                            .body = "sweep.html",
                            .styles = {"base.css", "simulate.css"},
                            .scripts = {"base.js", "table.js", "figure.js", "policies.js", "sweep.js"}};
        write_file(options.report, html_page(page, data));
    }
    if (out.json()) return out.object("tpx.simulate-sweep/1", json);
    out.result("{}", table(options, points));
}

}  // namespace tpx::cli
