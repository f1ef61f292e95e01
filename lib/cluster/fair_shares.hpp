// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

namespace tpx {

/// What a job may claim of a cluster.
struct FairClaim {
    double priority = 1;
    int demand = 1;  ///< the most GPUs that it can use
    int least = 1;   ///< the fewest
};

/// The GPUs of each of `claims` under elastic weighted fair sharing: shares in proportion to priority, rounded down to
/// powers of two, at least `least`, at most the demand; what is left over doubles shares, highest priority first. No
/// more than `gpus` together, unless the claims need more at least. After Or et al., "VirtualFlow" (MLSys 2022),
/// Algorithm 1, and what the authors' scheduler does; claims of equal priority count in their order.
std::vector<int> weighted_fair_shares(std::span<const FairClaim> claims, int gpus);

}  // namespace tpx
