// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/virtual_nodes.hpp"

#include "lib/core/error.hpp"

#include <numeric>

namespace tpx {

void check_virtual_nodes(const Layout& layout, Index batch) {
    if (layout.vn == 0) return;
    if (layout.vn < layout.dp)
        throw usage_error("layout: vn={} virtual nodes cannot run on dp={}; use dp={} or less", layout.vn, layout.dp,
                          layout.vn);
    if (batch > 0 && batch < layout.vn)
        throw usage_error("a global batch of {} samples cannot be split over vn={} virtual nodes", batch, layout.vn);
}

Interval virtual_nodes_of(const Layout& layout, int dp) {
    if (layout.vn_parts.empty()) return part({0, layout.vn}, layout.dp, dp);
    const auto own = layout.vn_parts.begin() + dp;
    const Index begin = std::accumulate(layout.vn_parts.begin(), own, Index{0});
    return {begin, begin + *own};
}

Interval samples_of(Interval nodes, int count, Index batch) {
    const Interval whole{0, batch};
    return {part(whole, count, nodes.begin).begin, part(whole, count, nodes.end - 1).end};
}

}  // namespace tpx
