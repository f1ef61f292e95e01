// SPDX-License-Identifier: Apache-2.0
#include "lib/change/shared_cuts.hpp"

#include <algorithm>

namespace tpx {

std::vector<SharedCut> shared_cuts(const Cuts& from, const Cuts& to) {
    std::vector<SharedCut> shared;
    std::size_t i = 0;
    std::size_t j = 0;
    while (i < from.size() && j < to.size()) {
        const Interval both = intersect(from[i].interval, to[j].interval);
        if (!both.empty()) shared.push_back({both, from[i].owner, to[j].owner, from[i].interval != to[j].interval});
        const Index end = std::min(from[i].interval.end, to[j].interval.end);
        if (from[i].interval.end == end) ++i;
        if (to[j].interval.end == end) ++j;
    }
    return shared;
}

}  // namespace tpx
