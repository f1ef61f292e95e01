// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/relocation.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace tpx {

/// What was found by place_for_time(). Seconds are predicted, by known and assumed rates alike.
struct FastPlacement {
    Placement placement;
    double seconds = 0;
    double seconds_of_fewest_bytes = 0;  ///< never less than `seconds`
    double bound = 0;                    ///< no placement of the blocks takes less
    std::uint64_t fewest_bytes = 0;      ///< crossing bytes of the placement that has fewest
    std::uint64_t compared = 0;          ///< placements whose time was predicted
    bool is_fastest = false;             ///< proven: no placement of the blocks takes less than `seconds`
};

/// The predicted seconds of a change with a placement.
using SecondsOf = std::function<double(const Placement&)>;

/// Looks for the placement of the blocks of `start`, which has fewest crossing bytes, with the shortest predicted time.
/// All placements are searched, except those that surely take as long as the best one found so far, because one host
/// receives, reads or writes too long. If these are more than `most` (by default, as many as some seconds allow),
/// the search ends and single blocks are moved or exchanged as long as this helps, which may miss the fastest one. Of
/// equally fast ones, the result is `start` if it is among them. `state` must not be `shared`, unless every host reads
/// all that it needs.
FastPlacement place_for_time(const Parcels& parcels, std::span<const Host> hosts, std::span<const Seat> old_ranks,
                             StateIn state, const Placement& start, const SecondsOf& seconds_of,
                             std::optional<std::uint64_t> most = std::nullopt);

}  // namespace tpx
