// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/transfers.hpp"

#include <cstdint>
#include <vector>

namespace tpx {

/// Transfers with their rounds; see Relocation.
struct Schedule {
    std::vector<Transfer> transfers;  ///< sorted by round
    std::uint32_t rounds = 0;
    std::vector<std::uint64_t> staging;  ///< of each host
};

/// Cuts `transfers` at ends of elements, and gives each part a round, such that in a round a host sends to at most one
/// host and receives from at most one, what a host forwards it received in earlier rounds, and no host keeps more than
/// `window` bytes in between. The busiest host sends or receives in 64 rounds or more; a stream of many hops makes the
/// parts smaller. Reads from storage take no part: they have round 0. Throws Error (usage) when `window` has no room
/// for four of the largest elements.
Schedule schedule(Transfers transfers, const Parcels& parcels, std::size_t hosts, std::uint64_t window);

}  // namespace tpx
