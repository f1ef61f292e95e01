// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/placement.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace tpx {

/// A placement of whole groups of ranks, each of which can be on any host.
struct GroupPlacement {
    Placement placement;      ///< PlacementGoal::groups; consecutive groups on a host are one block
    std::uint64_t bound = 0;  ///< no placement of whole groups has fewer crossing bytes; at least its `group_bound`
    bool is_least() const { return placement.crossing == bound; }
};

/// Places each group of `start.group` consecutive ranks on one of the hosts to which place() can assign blocks, so that
/// few bytes cross. Nothing if these hosts cannot take all groups whole.
///
/// This is not an assignment problem, because groups on a host share the bytes that several of them need. The bound is
/// the larger of those of two relaxations:
/// - each group pays for the bytes that it needs, divided by the most groups that could share them on one host; the
///   least sum is a transportation problem, which is solved exactly;
/// - bytes that more groups need than fit on their holders cross into at least as many hosts as the other groups fill.
/// The placement is the better of `start` and the solution of the transportation problem, improved by exchanging groups
/// while that helps. For few groups, all placements are searched, as far as `effort` (steps) allows, and the bound
/// becomes exact. The result never has more crossing bytes than `start`, if `start` splits no group.
std::optional<GroupPlacement> place_groups(const Parcels& parcels, std::span<const Host> hosts,
                                           std::span<const RankLocation> old_ranks, const Placement& start,
                                           std::uint64_t effort = 200'000'000);

}  // namespace tpx
