// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// How many of `ranks` ranks each host gets, of which `devices` says how many it can take, by the rule of tpx-plan(5):
/// all of them, but none behind the last whole group of `group` ranks where enough devices remain for the others.
/// Throws Error when the devices are too few.
std::vector<std::uint64_t> expected_blocks(std::span<const std::uint32_t> devices, std::uint64_t ranks,
                                           std::uint64_t group);

}  // namespace tpx
