// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/mapped_rank_sets.hpp"
#include "lib/change/placement.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// The device of each new rank on the host of its block. The choice maximizes the bytes that ranks need and already
/// have on their device; ties keep ranks in order. Several blocks may share a host.
std::vector<std::int32_t> choose_devices(const Parcels& parcels, std::span<const Host> hosts,
                                         std::span<const RankLocation> old_ranks, std::span<const Block> blocks);

/// The same, given the amounts of `parcels`.
std::vector<std::int32_t> choose_devices(const Parcels& parcels, std::span<const Amount> amounts,
                                         std::span<const Host> hosts, std::span<const RankLocation> old_ranks,
                                         std::span<const Block> blocks);

/// The same, but with the devices of each host in order.
std::vector<std::int32_t> devices_in_order(std::span<const Host> hosts, std::span<const Block> blocks);

}  // namespace tpx
