// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/growth.hpp"

#include <algorithm>

namespace tpx {

// Dynamic programming: the largest sum of the first jobs with at most 0, 1, ..., `free` GPUs, one job after another.
std::vector<int> best_growths(std::span<const std::vector<Growth>> options, int free) {
    const auto width = static_cast<std::size_t>(std::max(free, 0)) + 1;
    std::vector<double> most(width), before;
    std::vector<std::vector<int>> chosen;  // by job, then GPUs
    for (const std::vector<Growth>& ways : options) {
        before = most;
        std::vector<int>& choice = chosen.emplace_back(width, -1);
        for (std::size_t way = 0; way < ways.size(); ++way) {
            const auto more = static_cast<std::size_t>(ways[way].more);
            for (std::size_t has = more; has < width; ++has) {
                const double sum = before[has - more] + ways[way].gain;
                if (sum > most[has]) most[has] = sum, choice[has] = static_cast<int>(way);
            }
        }
    }
    // The fewest GPUs that reach the largest sum.
    auto left = static_cast<std::size_t>(std::ranges::find(most, most.back()) - most.begin());
    std::vector<int> result(options.size(), -1);
    for (std::size_t job = options.size(); job-- > 0;) {
        result[job] = chosen[job][left];
        if (result[job] >= 0)
            left -= static_cast<std::size_t>(options[job][static_cast<std::size_t>(result[job])].more);
    }
    return result;
}

}  // namespace tpx
