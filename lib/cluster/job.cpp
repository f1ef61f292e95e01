// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/job.hpp"

#include <algorithm>
#include <cmath>

namespace tpx {

int Grant::gpus() const {
    int total = 0;
    for (const GpuShare& part : parts) total += part.gpus;
    return total;
}

void set_limits(TraceJob& job, const Elasticity& elasticity) {
    if (job.own_limits) return;
    constexpr double rounding = 1e-9, highest = 1 << 20;
    job.own_limits = true;
    job.least = std::max(1, static_cast<int>(std::ceil(job.gpus * elasticity.least - rounding)));
    job.most = static_cast<int>(std::min(highest, std::floor(job.gpus * elasticity.most + rounding)));
}

}  // namespace tpx
