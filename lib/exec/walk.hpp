// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/box.hpp"

#include <cstddef>

namespace tpx {

/// One axis of a walk over two strided arrays at once.
struct WalkAxis {
    Index count = 1;
    Index source = 0;  ///< stride in bytes
    Index target = 0;  ///< stride in bytes
};

/// The axes of an array of `sizes` without those of one element, in descending order of the target's strides.
/// Neighboring axes that form one axis in both arrays are joined.
Tuple<WalkAxis> walk_axes(const Shape& sizes, const Strides& source, const Strides& target);

/// Calls `visit(source, target)` for each index of `axes`, in row-major order.
template <class Visit>
void walk(const Tuple<WalkAxis>& axes, const std::byte* source, std::byte* target, Visit&& visit) {
    Tuple<Index> index(axes.size());
    for (;;) {
        visit(source, target);
        int k = axes.size() - 1;
        for (; k >= 0 && index[k] + 1 == axes[k].count; --k) {
            source -= index[k] * axes[k].source;
            target -= index[k] * axes[k].target;
            index[k] = 0;
        }
        if (k < 0) return;
        ++index[k];
        source += axes[k].source;
        target += axes[k].target;
    }
}

}  // namespace tpx
