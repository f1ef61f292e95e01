// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/relocation.hpp"

#include <cstdint>
#include <span>

namespace tpx {

/// Sets the ranks of `transfers`, which are sorted by round, see Transfer: of ranks that may send or receive the bytes,
/// the one that has sent or received the fewest bytes so far, the lowest of several. `old_hosts` and `new_hosts`: the
/// host of each rank; -1: none.
void set_ranks(std::span<Transfer> transfers, const Parcels& parcels, std::span<const std::int32_t> old_hosts,
               std::span<const std::int32_t> new_hosts);

}  // namespace tpx
