// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/group_costs.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tpx {

/// A lower bound on the bytes that cross into hosts, however groups are placed, and a placement. It is the best one for
/// a relaxed cost, in which each group pays for the bytes that it needs and its host does not hold, divided by the most
/// groups that could share them on one host.
struct GroupBound {
    std::uint64_t shared = 0;
    std::uint64_t overflowing = 0;
    GroupColumns columns;
    std::vector<std::int64_t> group_prices;
    std::vector<std::int64_t> prices;  ///< of columns

    std::uint64_t bytes() const { return std::max(shared, overflowing); }
};

/// Computes the bound, starting from any placement `given`.
///
/// Prices prove the bound: group price + host price <= what the group pays on the host, for every group and every host
/// that can take one; host prices are never positive. So `shared`, the sum of the group prices and of each host's price
/// times its capacity, is a bound. `overflowing` is a bound that needs no prices: it counts amounts that more groups
/// need than fit on their holders.
GroupBound group_bound(const GroupNeeds& needs, const GroupColumns& given);

}  // namespace tpx
