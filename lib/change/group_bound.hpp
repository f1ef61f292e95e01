// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/group_costs.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tpx {

/// A lower bound of the bytes that cross into hosts, however groups are placed, and the placement that is best if each
/// of the groups that need some bytes pays a part of them: that which is left if as many as ever can share them.
struct GroupBound {
    std::uint64_t shared = 0;
    std::uint64_t overflowing = 0;
    GroupColumns columns;
    std::vector<std::int64_t> group_prices;
    std::vector<std::int64_t> prices;  ///< of columns

    std::uint64_t bytes() const { return std::max(shared, overflowing); }
};

/// `given` is any placement.
///
/// Prices prove the bound: group price + host price <= what the group pays on the host, for every group and every host
/// that can take one; host prices are never positive. `shared`, the sum of the group prices and of each host's price
/// times the groups that it can take, is then a bound. `overflowing` is one that needs no proof: of each amount that
/// more groups need than fit on its holders.
GroupBound group_bound(const GroupNeeds& needs, const GroupColumns& given);

}  // namespace tpx
