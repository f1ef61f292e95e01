// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/images.hpp"
#include "lib/change/placement.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// The device of each new rank on the host of its block, such that most bytes that ranks need are on their device
/// already; in order where that costs nothing. Several blocks may share a host.
std::vector<std::int32_t> choose_devices(const Parcels& parcels, std::span<const Host> hosts,
                                         std::span<const Seat> old_ranks, std::span<const Block> blocks);

/// The same, given the amounts of `parcels`.
std::vector<std::int32_t> choose_devices(const Parcels& parcels, std::span<const Amount> amounts,
                                         std::span<const Host> hosts, std::span<const Seat> old_ranks,
                                         std::span<const Block> blocks);

/// The same with the devices of each host in order.
std::vector<std::int32_t> devices_in_order(std::span<const Host> hosts, std::span<const Block> blocks);

}  // namespace tpx
