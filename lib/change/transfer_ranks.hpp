// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/relocation.hpp"

#include <cstdint>
#include <span>

namespace tpx {

/// Chooses the ranks at both ends of `transfers`, which are sorted by round. Of the ranks that can send or receive the
/// bytes, see Transfer, it takes the one that has sent or received the fewest bytes so far; among equal ones, the
/// lowest. `old_hosts` and `new_hosts` contain the host of each rank; -1: none.
void set_ranks(std::span<Transfer> transfers, const Parcels& parcels, std::span<const std::int32_t> old_hosts,
               std::span<const std::int32_t> new_hosts);

}  // namespace tpx
