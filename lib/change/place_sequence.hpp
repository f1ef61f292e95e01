// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/placement.hpp"
#include "lib/layout/layout.hpp"
#include "lib/layout/model_state.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// Where the ranks run after each step of a sequence of layout changes.
struct SequencePlacement {
    /// One for each layout after the first. A placement that costs its own step more than necessary, so that all steps
    /// together cost less, is PlacementGoal::sequence and has no prices.
    std::vector<Placement> steps;
    std::uint64_t crossing = 0;    ///< bytes that must come into hosts, in all steps together
    std::uint64_t one_by_one = 0;  ///< the same if each step is placed on its own; never less
    bool is_least = false;         ///< proven: no placements in blocks have a smaller `crossing`
};

/// Places the ranks of all `layouts` except the first, whose ranks are on `old_ranks`. There must be at least two
/// layouts. If all hosts that take ranks have the same number of devices, the best placements step by step are the best
/// overall, because exchanging hosts in all later steps changes no later step. Otherwise, two heuristics are compared:
/// the best placement of each step, from the first to the last; and the best placement of the last layout for the
/// direct change, then of each earlier layout for the one after it. Both are improved by placing single layouts again,
/// for the steps before and after them, while this helps. Throws Error as place() and model_parcels() do.
SequencePlacement place_sequence(const ModelState& model, std::span<const Layout> layouts, std::span<const Host> hosts,
                                 std::span<const RankLocation> old_ranks);

/// The locations of the ranks that `placement` places, for the next change.
std::vector<RankLocation> rank_locations_of(const Placement& placement);

}  // namespace tpx
