// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/hosts.hpp"
#include "lib/change/placement.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// The host of each old rank; -1 if its state is lost, with its host or its device or before. Throws Error (usage)
/// unless there are `old_ranks` locations, on existing hosts, each on a device of its host or on no device.
std::vector<std::int32_t> old_rank_hosts(std::span<const Host> hosts, std::span<const RankLocation> rank_locations,
                                         int old_ranks);

/// The device of each old rank; -1 if it has none, or if the device or its host is lost. The locations must have passed
/// old_rank_hosts().
std::vector<std::int32_t> old_rank_devices(std::span<const Host> hosts, std::span<const RankLocation> rank_locations);

}  // namespace tpx
