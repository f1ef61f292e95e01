// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/hosts.hpp"
#include "lib/change/placement.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// The host of each old rank, -1 where it has none any more, or a lost one, or is on a lost device. Throws Error
/// (usage) unless there are `old_ranks` seats on hosts that are there, each with a device of its host or with none.
std::vector<std::int32_t> seat_hosts(std::span<const Host> hosts, std::span<const Seat> seats, int old_ranks);

/// The device of each old rank, -1 where it has none or it or its host is lost. The seats were checked by seat_hosts.
std::vector<std::int32_t> seat_devices(std::span<const Host> hosts, std::span<const Seat> seats);

}  // namespace tpx
