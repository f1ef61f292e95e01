// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/placement.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace tpx {

/// Hosts that are the only ones to hold some state after a change. If all of them are lost, so is that state.
struct CriticalHosts {
    std::vector<std::int32_t> hosts;  ///< ascending
    std::uint64_t bytes = 0;          ///< bytes of which only these hosts have copies

    friend bool operator==(const CriticalHosts&, const CriticalHosts&) = default;
};

/// How many lost hosts the state of the new ranks survives.
struct Survival {
    int copies = 0;  ///< number of hosts that hold the state with the fewest copies
    std::vector<CriticalHosts>
        critical;  ///< all sets of `copies` hosts that are the only ones to hold some state, sorted by hosts
    std::map<int, std::uint64_t> bytes_by_copies;  ///< distinct bytes by the number of hosts that hold them

    /// The number of hosts, whichever they are, that can be lost without losing state.
    int tolerated_losses() const { return copies > 0 ? copies - 1 : 0; }
    /// The bytes to copy so that all state has at least `copies` + 1 copies.
    std::uint64_t next_copy() const { return copies > 0 ? bytes_by_copies.begin()->second : 0; }
};

/// The survival of the state that `parcels` bring to the new ranks, which are placed as `placement` says.
Survival survival_of(const Parcels& parcels, std::span<const Host> hosts, const Placement& placement);

}  // namespace tpx
