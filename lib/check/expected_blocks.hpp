// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// The hosts with devices, in the order of tpx-plan(5): first those that are not spare, in the order of their numbers,
/// then spare hosts, those with the most devices first and equal ones in the order of their numbers.
std::vector<std::uint32_t> hosts_in_order(std::span<const std::uint32_t> devices, std::span<const std::uint32_t> spare);

/// How many of `ranks` ranks each host gets by the rule of tpx-plan(5); `devices` is how many ranks each host can take.
/// A host gets as many ranks as it can take, but only whole groups of `group` ranks if the hosts after it have enough
/// devices for the other ranks. The last `spares` hosts are spare. A spare host gets no ranks if all groups fit whole
/// on the hosts before it or, if groups do not fit whole even on all hosts, if all ranks fit on the hosts before it.
/// Throws Error if there are too few devices.
std::vector<std::uint64_t> expected_blocks(std::span<const std::uint32_t> devices, std::size_t spares,
                                           std::uint64_t ranks, std::uint64_t group);

}  // namespace tpx
