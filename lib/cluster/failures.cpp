// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/failures.hpp"

#include "lib/cluster/random.hpp"

#include <algorithm>

namespace tpx {

std::vector<Outage> random_outages(const Cluster& cluster, Time between, Time repair, Time end, std::uint64_t seed) {
    std::vector<Outage> outages;
    for (std::size_t host = 0; host < cluster.hosts.size(); ++host) {
        Random random{seed ^ (0x9e3779b97f4a7c15 * (host + 1))};
        for (Time now = 0;; now += repair) {
            now += std::max(Time{1}, time_of(random.exponential(seconds_of(between))));
            if (now >= end) break;
            outages.push_back({static_cast<int>(host), now, now + repair});
        }
    }
    return outages;
}

}  // namespace tpx
