// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/summary.hpp"

#include "lib/cluster/gpu_pool.hpp"
#include "lib/cluster/speed.hpp"

#include <algorithm>
#include <numeric>

namespace tpx {
namespace {

double mean(const std::vector<double>& values) {
    if (values.empty()) return 0;
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Jain's index.
double evenness(const std::vector<double>& values) {
    double sum = 0, squares = 0;
    for (const double value : values) sum += value, squares += value * value;
    return squares > 0 ? sum * sum / (static_cast<double>(values.size()) * squares) : 1;
}

SimulationSummary::Class class_summary(std::span<const TraceJob> jobs, const SimulationResults& results,
                                       bool guaranteed) {
    SimulationSummary::Class is{.guaranteed = guaranteed};
    std::vector<double> times, queueing;
    for (std::size_t id = 0; id < jobs.size(); ++id) {
        const JobResult& result = results.jobs[id];
        if (jobs[id].guaranteed != guaranteed) continue;
        ++is.jobs;
        if (result.start != never) queueing.push_back(seconds_of(result.start - result.arrival));
        if (result.finish != never) times.push_back(seconds_of(result.finish - result.arrival));
    }
    is.finished = times.size();
    is.started = queueing.size();
    is.mean_jct = mean(times);
    is.median_jct = quantile(times, 0.5);
    is.p99_jct = quantile(times, 0.99);
    is.mean_queueing = mean(queueing);
    return is;
}

}  // namespace

double quantile(std::vector<double> values, double q) {
    if (values.empty()) return 0;
    const auto at = std::min(values.size() - 1, static_cast<std::size_t>(q * static_cast<double>(values.size())));
    std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(at));
    return values[at];
}

SimulationSummary summarize(const Cluster& cluster, std::span<const TraceJob> jobs, const SimulationResults& results) {
    const GpuPool empty{cluster};
    SimulationSummary summary;
    summary.jobs = jobs.size();
    std::vector<double> times, queueing, slowdowns;
    Time first = never, last = results.end;
    double held = 0, worked = 0, trained = 0;
    for (std::size_t id = 0; id < jobs.size(); ++id) {
        const JobResult& result = results.jobs[id];
        first = std::min(first, result.arrival);
        if (result.start != never) queueing.push_back(seconds_of(result.start - result.arrival));
        held += result.held;
        worked += result.worked;
        trained += result.trained;
        summary.lost += result.lost / 3600e6;
        summary.moved += result.moved;
        summary.paused += seconds_of(result.paused);
        summary.changes += result.changes;
        summary.stops += result.stops;
        summary.deadlines += jobs[id].deadline.has_value();
        if (result.finish == never) {
            ++summary.unfinished;
            continue;
        }
        last = std::max(last, result.finish);
        const Time time = result.finish - result.arrival;
        times.push_back(seconds_of(time));
        const double alone = jobs[id].work / full_rate(jobs[id], cluster, empty);
        if (alone > 0) slowdowns.push_back(static_cast<double>(time) / alone);
        summary.kept += jobs[id].deadline && time <= *jobs[id].deadline;
    }
    summary.started = queueing.size();
    summary.mean_jct = mean(times);
    summary.median_jct = quantile(times, 0.5);
    summary.p99_jct = quantile(times, 0.99);
    summary.mean_queueing = mean(queueing);
    summary.median_queueing = quantile(queueing, 0.5);
    summary.p99_queueing = quantile(queueing, 0.99);
    summary.slowdown = mean(slowdowns);
    summary.fairness = evenness(slowdowns);
    for (const bool guaranteed : {true, false}) summary.classes.push_back(class_summary(jobs, results, guaranteed));
    if (summary.classes[0].jobs == 0 || summary.classes[1].jobs == 0) summary.classes.clear();
    if (jobs.empty()) return summary;
    last = std::max(last, first);  // without any job that started, the results end before the first arrival
    summary.makespan = seconds_of(last - first);
    const double all = static_cast<double>(last - first) * cluster.gpus();
    summary.held = all > 0 ? held / all : 0;
    summary.worked = all > 0 ? worked / all : 0;
    summary.trained = all > 0 ? trained / all : 0;
    return summary;
}

}  // namespace tpx
