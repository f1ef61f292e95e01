// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <ctime>
#include <functional>

namespace tpx::test {

/// Seconds of CPU time that this process has used. Waiting on a busy machine does not count.
inline double cpu_seconds() {
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

/// The seconds of CPU time that `work` needs: the least of up to five runs, stopping at one that took less than
/// `enough`. Other processes can slow down a run, through caches and shared cores, but never make it faster.
inline double least_cpu_seconds(double enough, const std::function<void()>& work) {
    double least = 1e9;
    for (int run = 0; run < 5 && least >= enough; ++run) {
        const double start = cpu_seconds();
        work();
        least = std::min(least, cpu_seconds() - start);
    }
    return least;
}

}  // namespace tpx::test
