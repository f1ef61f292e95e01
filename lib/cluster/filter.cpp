// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/filter.hpp"

#include "lib/cluster/random.hpp"

#include <algorithm>
#include <map>
#include <string_view>

namespace tpx {

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
        if (filter.window) event.time = std::max<Time>(0, event.time - filter.window->first);
        if (filter.load != 1) event.time = time_of(seconds_of(event.time) / filter.load);
    }
    return script;
}

}  // namespace tpx
