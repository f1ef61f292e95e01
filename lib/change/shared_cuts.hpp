// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/shard_map.hpp"

#include <vector>

namespace tpx {

/// An interval of an axis that neither layout splits further, and who holds it before and after.
struct SharedCut {
    Interval interval;
    Owner from;
    Owner to;
    bool recut = false;  ///< the two layouts hold it as part of different intervals
};

/// All intervals bounded by cuts of `from` or `to`, which must tile the same axis. If they have a and b equal parts,
/// there are a + b - gcd(a, b) intervals.
std::vector<SharedCut> shared_cuts(const Cuts& from, const Cuts& to);

}  // namespace tpx
