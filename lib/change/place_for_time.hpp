// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/relocation.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace tpx {

/// The result of place_for_time(). Seconds are predicted from known and assumed rates.
struct FastPlacement {
    Placement placement;
    double seconds = 0;
    double seconds_of_fewest_bytes = 0;  ///< never less than `seconds`
    double bound = 0;                    ///< no placement of the blocks takes less
    std::uint64_t fewest_bytes = 0;      ///< crossing bytes of the placement with the fewest
    std::uint64_t compared = 0;          ///< placements whose time was predicted
    bool is_fastest = false;             ///< proven: no placement of the blocks takes less than `seconds`
};

/// Returns the predicted seconds of a change with a placement.
using SecondsOf = std::function<double(const Placement&)>;

/// Searches for the placement of the blocks of `start` with the shortest predicted time; `start` has the fewest
/// crossing bytes. Skips only placements that cannot be faster than the best one so far because one host receives,
/// reads or writes for too long. If more than `most` placements remain (by default, as many as a few seconds allow), it
/// stops and moves or exchanges single blocks as long as this helps, which may miss the fastest placement. Returns
/// `start` if no placement is faster. `state` must not be `shared`, unless every host reads everything that it needs.
FastPlacement place_for_time(const Parcels& parcels, std::span<const Host> hosts,
                             std::span<const RankLocation> old_ranks, StateMedium state, const Placement& start,
                             const SecondsOf& seconds_of, std::optional<std::uint64_t> most = std::nullopt);

}  // namespace tpx
