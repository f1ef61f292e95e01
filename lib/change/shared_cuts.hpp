// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/shard_map.hpp"

#include <vector>

namespace tpx {

/// An interval of an axis that both layouts leave whole, and who holds it before and after.
struct SharedCut {
    Interval interval;
    Owner from;
    Owner to;
    bool recut = false;  ///< the two layouts hold it in different intervals
};

/// All intervals bounded by `from` or `to`: a + b - gcd(a, b) of them for equal cuts. Both tile the same axis.
std::vector<SharedCut> shared_cuts(const Cuts& from, const Cuts& to);

}  // namespace tpx
