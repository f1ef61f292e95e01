// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/walk.hpp"

namespace tpx {

Tuple<WalkAxis> walk_axes(const Shape& sizes, const Strides& source, const Strides& target) {
    Tuple<WalkAxis> sorted;
    for (int k = 0; k < sizes.size(); ++k) {
        if (sizes[k] != 1) sorted.push_back({sizes[k], source[k], target[k]});
    }
    std::stable_sort(sorted.begin(), sorted.end(), [](const WalkAxis& a, const WalkAxis& b) {
        return a.target != b.target ? a.target > b.target : a.source > b.source;
    });
    Tuple<WalkAxis> joined;
    for (const WalkAxis& axis : sorted) {
        if (!joined.empty()) {
            WalkAxis& outer = joined[joined.size() - 1];
            if (outer.source == axis.source * axis.count && outer.target == axis.target * axis.count) {
                outer = {outer.count * axis.count, axis.source, axis.target};
                continue;
            }
        }
        joined.push_back(axis);
    }
    return joined;
}

}  // namespace tpx
