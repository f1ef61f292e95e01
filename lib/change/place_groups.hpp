// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/placement.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace tpx {

/// A placement of whole groups of ranks, each on any host.
struct GroupPlacement {
    Placement placement;      ///< PlacedFor::groups; consecutive groups on a host are one block
    std::uint64_t bound = 0;  ///< no placement of whole groups has fewer crossing bytes; at least its `group_bound`
    bool is_least() const { return placement.crossing == bound; }
};

/// Places each `start.group` consecutive ranks on any host that can take them, such that few bytes cross; on the hosts
/// to which place() assigns blocks. Nothing if these cannot take all groups whole.
///
/// The fewest bytes are no assignment problem, since groups on a host share what several of them need. The bound is
/// that of two relaxations that is larger:
/// - each of the groups that need some bytes pays the part of them that is left if as many as ever can share them; the
///   least sum is a transportation problem, which is solved exactly;
/// - bytes that more groups need than fit on their holders cross to as many hosts as these groups need at least.
/// The placement is the better of `start` and the solution of the transportation problem, improved by exchanging groups
/// while that helps; of few groups all placements are searched, as long as `effort` (steps) allows, and the bound is
/// the least that there is. It never has more crossing bytes than `start`, if that splits no group.
std::optional<GroupPlacement> place_groups(const Parcels& parcels, std::span<const Host> hosts,
                                           std::span<const Seat> old_ranks, const Placement& start,
                                           std::uint64_t effort = 200'000'000);

}  // namespace tpx
