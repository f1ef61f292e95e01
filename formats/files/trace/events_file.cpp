// SPDX-License-Identifier: Apache-2.0
#include "formats/files/trace/events_file.hpp"

#include "formats/files/trace/rows.hpp"
#include "lib/cluster/speed.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/file.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace tpx::formats {
namespace {

constexpr int most_event_gpus = 1 << 20;

ScriptedEvent host_event(const Row& row, const Cluster& cluster) {
    const auto host = std::ranges::find(cluster.hosts, row.text("host"), &ClusterHost::name);
    if (host == cluster.hosts.end()) throw row.bad("host", "the cluster has no host '{}'", row.text("host"));
    for (const std::string_view column : {"min_gpus", "max_gpus", "cpus"})
        if (row.has(column)) throw row.bad(column, "only jobs have it, not hosts");
    ScriptedEvent event;
    event.time = row.time("time");
    event.host = static_cast<int>(host - cluster.hosts.begin());
    event.gpus = row.whole("gpus", 0, most_event_gpus);
    if (*event.gpus > host->gpus)
        throw row.bad("gpus", "host '{}' has {} in the cluster", host->name, counted(std::uint64_t(host->gpus), "GPU"));
    return event;
}

ScriptedEvent job_event(const Row& row, const std::map<std::string_view, int>& numbers) {
    const auto job = numbers.find(row.text("job"));
    if (job == numbers.end()) throw row.bad("job", "the trace has no job '{}'", row.text("job"));
    ScriptedEvent event;
    event.time = row.time("time");
    event.job = job->second;
    if (row.has("gpus")) event.gpus = row.whole("gpus", 1, most_event_gpus);
    if (row.has("min_gpus")) event.least = row.whole("min_gpus", 1, most_event_gpus);
    if (row.has("max_gpus")) event.most = row.whole("max_gpus", 1, most_event_gpus);
    if (row.has("cpus")) event.cpus = row.number("cpus", 0, most_event_gpus);
    if (!event.gpus && !event.least && !event.most && !event.cpus)
        throw row.bad("gpus", "a change of a job needs gpus, min_gpus, max_gpus or cpus");
    return event;
}

/// The request and the limits of a job while its events are checked.
struct Limits {
    int gpus, least, most;
    double cpus;
};

// A row of a trace is refused for the same reasons.
void check_request(const ScriptedEvent& event, const Limits& limits, TraceJob job, const Cluster& cluster,
                   const Row& row) {
    if (!event.gpus && !event.cpus) return;
    const char* column = event.gpus ? "gpus" : "cpus";
    const std::string request = counted(std::uint64_t(limits.gpus), "GPU");
    if (limits.gpus > cluster.gpus())
        throw row.bad(column, "job '{}' would request {}, but the cluster has {}", job.name, request, cluster.gpus());
    job.gpus = limits.gpus;
    job.cpus = limits.cpus;
    job.kinds.clear();
    if (!(full_rate(job, cluster) > 0))
        throw row.bad(column, "job '{}' would request {}, with which it cannot run", job.name, request);
}

// Completes the limits of an event: a job that has exactly what it requests keeps to that.
void check_event(ScriptedEvent& event, Limits& limits, const TraceJob& job, const Row& row) {
    const bool is_rigid = limits.least == limits.gpus && limits.most == limits.gpus;
    if (event.gpus && is_rigid && !event.least) event.least = event.gpus;
    if (event.gpus && is_rigid && !event.most) event.most = event.gpus;
    limits = {event.gpus.value_or(limits.gpus), event.least.value_or(limits.least), event.most.value_or(limits.most),
              event.cpus.value_or(limits.cpus)};
    if (limits.least > limits.gpus || limits.gpus > limits.most)
        throw row.bad("gpus", "job '{}' would request {} and may have {} to {}; give gpus, min_gpus and max_gpus",
                      job.name, counted(std::uint64_t(limits.gpus), "GPU"), limits.least, limits.most);
}

}  // namespace

std::vector<ScriptedEvent> parse_events(std::string_view text, std::string_view file, const Cluster& cluster,
                                        std::span<const TraceJob> jobs) {
    const Table table = parse_table(text, file);
    if (table.find("time") == Table::npos) throw failure("{}: has no column 'time'", file);
    check_columns_of(table, {"time", "host", "job", "gpus", "min_gpus", "max_gpus", "cpus"});
    std::map<std::string_view, int> numbers;
    for (std::size_t id = 0; id < jobs.size(); ++id) numbers.emplace(jobs[id].name, static_cast<int>(id));
    std::vector<std::pair<ScriptedEvent, const Table::Row*>> events;
    for (const Table::Row& cells : table.rows) {
        const Row row{table, cells};
        if (row.has("host") == row.has("job")) throw row.bad("host", "either host or job is needed");
        events.emplace_back(row.has("host") ? host_event(row, cluster) : job_event(row, numbers), &cells);
    }
    std::ranges::stable_sort(events, {}, [](const auto& event) { return event.first.time; });
    std::map<int, Limits> limits;
    std::vector<ScriptedEvent> script;
    for (auto& [event, cells] : events) {
        if (event.job != any) {
            const TraceJob& job = jobs[static_cast<std::size_t>(event.job)];
            Limits& now = limits.try_emplace(event.job, Limits{job.gpus, job.least, job.most, job.cpus}).first->second;
            check_event(event, now, job, {table, *cells});
            check_request(event, now, job, cluster, {table, *cells});
        }
        script.push_back(event);
    }
    return script;
}

std::vector<ScriptedEvent> read_events(const std::string& path, const Cluster& cluster,
                                       std::span<const TraceJob> jobs) {
    constexpr std::uint64_t longest = std::uint64_t{64} << 20;
    return parse_events(read_file(path, longest), path, cluster, jobs);
}

}  // namespace tpx::formats
