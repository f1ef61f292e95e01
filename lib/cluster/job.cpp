// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/job.hpp"

namespace tpx {

int Grant::gpus() const {
    int total = 0;
    for (const GpuShare& part : parts) total += part.gpus;
    return total;
}

}  // namespace tpx
