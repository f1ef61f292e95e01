// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/plan/relocation.hpp"

#include <cstdint>
#include <vector>

namespace tpx {

/// Transfers with their rounds.
struct Schedule {
    std::vector<Transfer> transfers;  ///< sorted by round
    std::uint32_t rounds = 0;
};

/// Cuts `transfers` into quanta, of which the busiest of `hosts` hosts sends or receives about 64, and gives each a
/// round, such that in a round a host sends to at most one host and receives from at most one. Rounds are as many as
/// one host sends or receives quanta: the fewest there can be. `relayed` marks the transfers whose sender received the
/// bytes before; where that costs nothing they have later rounds. Reads from storage take no part: they have round 0.
Schedule schedule(std::vector<Transfer> transfers, const std::vector<bool>& relayed, std::uint32_t hosts);

}  // namespace tpx
