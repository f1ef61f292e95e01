// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/usage.hpp"

#include <algorithm>

namespace tpx {

std::vector<Usage> usage_over_time(std::span<const JobSegment> segments, Time begin, Time end, int count) {
    std::vector<Usage> usage(count);
    if (end <= begin) return usage;
    const double stretch = static_cast<double>(end - begin) / count;
    for (const JobSegment& segment : segments) {
        const double from = static_cast<double>(segment.begin - begin), to = static_cast<double>(segment.end - begin);
        const double gpus = segment.grant.gpus();
        const int last = std::min(count - 1, static_cast<int>(to / stretch));
        for (int i = std::max(0, static_cast<int>(from / stretch)); i <= last; ++i) {
            const double share = (std::min(to, (i + 1) * stretch) - std::max(from, i * stretch)) / stretch;
            if (share <= 0) continue;
            usage[i].held += gpus * share;
            if (segment.training) usage[i].training += gpus * share;
        }
    }
    return usage;
}

}  // namespace tpx
