// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/job.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace tpx {

/// What random jobs are like.
struct TraceRecipe {
    int jobs = 1000;
    double hourly = 12;                    ///< how many come in an hour on average; times between them are exponential
    std::optional<double> mean_duration;   ///< in seconds, exponential; else as in Philly, by the number of GPUs
    std::vector<int> gpus;                 ///< that jobs ask for, all as likely; none: as in Philly
    std::vector<double> priorities = {1};  ///< all as likely
    std::uint64_t seed = 1;
};

/// Random jobs for `cluster`, in order of arrival: none asks for more GPUs than there are. The same recipe makes the
/// same ones. Philly's are the condensed trace of Jeon et al. (ATC 2019): 82,247 jobs of 2017. Throws Error (usage)
/// when no number of GPUs fits.
std::vector<TraceJob> generate_trace(const TraceRecipe& recipe, const Cluster& cluster);

}  // namespace tpx
