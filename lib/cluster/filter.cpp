// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/filter.hpp"

#include "lib/cluster/random.hpp"

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

}  // namespace tpx
