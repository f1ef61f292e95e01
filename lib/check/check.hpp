// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/check/tables.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace tpx {

/// What of a plan was proven anew, by code that shares nothing with the planner.
struct PlanCheck {
    std::uint64_t ranks = 0;       ///< new ranks whose needs were derived from the layouts, or from what ranks hold
    std::uint64_t of_ranks = 0;    ///< new ranks there are
    std::uint64_t parcels = 0;     ///< in the file
    std::uint64_t compared = 0;    ///< parcels of a rank that were compared with what it needs
    std::uint64_t cells = 0;       ///< that name the elements of parcels; 0: the file has none
    std::uint64_t transfers = 0;   ///< each byte of which was followed to where it was to begin with
    std::uint64_t placements = 0;  ///< pairs of block and host whose prices were compared with bytes
    std::uint64_t crossing =
        0;               ///< bytes that come into hosts, and no placement compared and no choice of senders has fewer
    double seconds = 0;  ///< in which no choice of senders can be done; see SendingBound
    std::uint64_t group = 1;        ///< consecutive ranks that blocks keep together where they can
    std::uint64_t group_bound = 0;  ///< that placements of whole TP groups have at least; only where these were placed
    std::uint64_t placed_for = 0;   ///< see PlacedFor; placements in blocks were compared for 0 only
    std::string fault;              ///< the first thing that does not hold; empty: everything does

    bool holds() const { return fault.empty(); }
};

/// Checks all that tpx-plan(5) says is proven about `tables`, which may be anything. With `sample` the needs of so many
/// new ranks only are derived anew, the first and the last among them; everything else is always checked whole.
PlanCheck check_plan(const PlanTables& tables, std::optional<std::size_t> sample = {});

}  // namespace tpx
