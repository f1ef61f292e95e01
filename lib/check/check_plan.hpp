// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/check/tables.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace tpx {

/// What was proven about a plan by code that shares nothing with the planner.
struct PlanCheck {
    std::uint64_t ranks = 0;        ///< new ranks whose needs were derived from the layouts, or from what ranks hold
    std::uint64_t total_ranks = 0;  ///< all new ranks
    std::uint64_t parcels = 0;      ///< parcels in the file
    std::uint64_t compared = 0;     ///< parcels of a rank that were compared with what it needs
    std::uint64_t cells = 0;        ///< cells that list the elements of parcels; 0: the file has none
    std::uint64_t transfers = 0;    ///< transfers, each byte of which was traced back to its original location
    std::uint64_t placements = 0;   ///< pairs of block and host whose prices were compared with bytes
    std::uint64_t crossing = 0;     ///< bytes that come into hosts; no compared choice has fewer
    double seconds = 0;             ///< lower bound on the time of any choice of senders; see SendingBound
    std::uint64_t group = 1;        ///< consecutive ranks that blocks keep together where possible
    std::uint64_t group_bound = 0;  ///< lower bound on crossing bytes of whole TP groups; only if these were placed
    std::uint64_t placed_for = 0;   ///< see PlacementGoal; placements in blocks were compared for 0 only
    std::string fault;              ///< the first claim that does not hold; empty: all hold

    bool holds() const { return fault.empty(); }
};

/// Checks everything that tpx-plan(5) says is proven about `tables`, which may have any content. With `sample`, derives
/// the needs of only that many new ranks, including the first and the last; everything else is always checked
/// completely.
PlanCheck check_plan(const PlanTables& tables, std::optional<std::size_t> sample = {});

}  // namespace tpx
