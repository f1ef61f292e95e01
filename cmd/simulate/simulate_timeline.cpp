// SPDX-License-Identifier: Apache-2.0
#include "cmd/simulate/simulate.hpp"

#include <nlohmann/json.hpp>

namespace tpx::cli {

// Trace Event Format: a process for each policy, a thread for each host, a slice for what a job has on a host.
std::string timeline_json(const std::vector<PolicyRun>& played, const std::vector<TraceJob>& jobs,
                          const Cluster& cluster) {
    std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    bool first = true;
    const auto add = [&](const nlohmann::ordered_json& event) {
        if (!first) text += ",\n";
        first = false;
        text += event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    };
    for (std::size_t p = 0; p < played.size(); ++p) {
        add({{"ph", "M"}, {"pid", p + 1}, {"name", "process_name"}, {"args", {{"name", played[p].policy}}}});
        for (std::size_t host = 0; host < cluster.hosts.size(); ++host)
            add({{"ph", "M"},
                 {"pid", p + 1},
                 {"tid", host + 1},
                 {"name", "thread_name"},
                 {"args", {{"name", cluster.hosts[host].name}}}});
        std::uint64_t id = 0;
        for (const JobSegment& segment : played[p].results.segments) {
            for (const GpuShare& share : segment.grant.parts) {
                // Jobs on one host overlap, which slices of a thread may not: each gets an asynchronous track.
                const nlohmann::ordered_json begin{{"ph", "b"},
                                                   {"cat", segment.training ? "training" : "waiting"},
                                                   {"name", jobs[segment.job].name},
                                                   {"id", ++id},
                                                   {"pid", p + 1},
                                                   {"tid", share.host + 1},
                                                   {"ts", segment.begin},
                                                   {"args", {{"gpus", share.gpus}, {"training", segment.training}}}};
                add(begin);
                nlohmann::ordered_json end = begin;
                end["ph"] = "e";
                end["ts"] = segment.end;
                end.erase("args");
                add(end);
            }
        }
    }
    return text + "\n]}\n";
}

}  // namespace tpx::cli
