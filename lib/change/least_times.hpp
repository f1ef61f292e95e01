// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/relocation.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// For each block and each host in `choice`, the seconds for which the host receives, reads or writes for the block,
/// whichever is longest. By the rates of the hosts, known or assumed, no change with the block on that host takes less.
/// Negative if the host has too few devices. With StateMedium::shared, each host reads everything that it needs.
std::vector<std::vector<double>> least_times(const Parcels& parcels, std::span<const Host> hosts,
                                             std::span<const RankLocation> old_ranks, StateMedium state,
                                             std::span<const Block> blocks, std::span<const std::uint32_t> choice);

}  // namespace tpx
