// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/trace_filter.hpp"

#include "lib/cluster/random.hpp"

#include <algorithm>
#include <map>
#include <string_view>

namespace tpx {

namespace {

// A time of the trace as it is once the window's begin is time 0 and jobs come faster.
Time moved(Time time, const TraceFilter& filter) {
    if (filter.window) time = std::max<Time>(0, time - filter.window->first);
    return filter.load == 1 ? time : time_of(seconds_of(time) / filter.load);
}

}  // namespace

std::vector<TraceJob> filtered(std::vector<TraceJob> jobs, const TraceFilter& filter) {
    if (filter.window) {
        const auto [begin, end] = *filter.window;
        std::erase_if(jobs, [&](const TraceJob& job) { return job.arrival < begin || job.arrival >= end; });
        for (TraceJob& job : jobs) job.arrival -= begin;
    }
    if (filter.sample < 1) {
        Random random{filter.seed};
        std::erase_if(jobs, [&](const TraceJob&) { return random.unit() >= filter.sample; });
    }
    if (filter.load != 1)
        for (TraceJob& job : jobs) job.arrival = time_of(seconds_of(job.arrival) / filter.load);
    return jobs;
}

std::vector<ScriptedEvent> filtered(std::vector<ScriptedEvent> script, std::span<const TraceJob> all,
                                    std::span<const TraceJob> kept, const TraceFilter& filter) {
    std::map<std::string_view, int> numbers;
    for (std::size_t id = 0; id < kept.size(); ++id) numbers.emplace(kept[id].name, static_cast<int>(id));
    const auto number = [&](const ScriptedEvent& event) {
        const auto found = numbers.find(all[static_cast<std::size_t>(event.job)].name);
        return found == numbers.end() ? any : found->second;
    };
    std::erase_if(script, [&](const ScriptedEvent& event) { return event.job != any && number(event) == any; });
    for (ScriptedEvent& event : script) {
        if (event.job != any) event.job = number(event);
        event.time = moved(event.time, filter);
    }
    return script;
}

std::vector<Outage> filtered(std::vector<Outage> outages, const TraceFilter& filter) {
    for (Outage& outage : outages) {
        outage.begin = moved(outage.begin, filter);
        if (outage.end != never) outage.end = moved(outage.end, filter);
    }
    std::erase_if(outages, [](const Outage& outage) { return outage.end <= outage.begin; });
    return outages;
}

}  // namespace tpx
