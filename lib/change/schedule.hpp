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

/// Cuts `transfers` at element boundaries and gives each part a round, so that in a round a host sends to at most one
/// host and receives from at most one, a host forwards only what it received in earlier rounds, and no host buffers
/// more than `window` bytes. The busiest host sends or receives in 64 rounds or more; deep streams make the parts
/// smaller. Reads from storage are not scheduled: they have round 0. Throws Error (usage) if `window` is smaller than 8
/// of the largest elements.
Schedule schedule(Transfers transfers, const Parcels& parcels, std::size_t hosts, std::uint64_t window);

}  // namespace tpx
