// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// How many of `ranks` ranks each host gets, of which `devices` says how many it can take, by the rule of tpx-plan(5):
/// all of them, but none behind the last whole group of `group` ranks where enough devices remain for the others. The
/// last `spares` hosts are spare: from the end, those get none without which all groups still fit whole or, where they
/// do not fit on all hosts, all ranks. Throws Error when the devices are too few.
std::vector<std::uint64_t> expected_blocks(std::span<const std::uint32_t> devices, std::size_t spares,
                                           std::uint64_t ranks, std::uint64_t group);

}  // namespace tpx
