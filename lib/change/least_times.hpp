// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/relocation.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// Of each block and each of the hosts `choice`, the seconds that the host receives, reads or writes for the block,
/// whichever takes longest: no change in which the block is there takes less, by the rates of the hosts, known or
/// assumed. Negative where the host has too few devices. With StateIn::shared each host reads all that it needs.
std::vector<std::vector<double>> least_times(const Parcels& parcels, std::span<const Host> hosts,
                                             std::span<const Seat> old_ranks, StateIn state,
                                             std::span<const Block> blocks, std::span<const std::uint32_t> choice);

}  // namespace tpx
