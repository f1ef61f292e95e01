// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/placement.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace tpx {

/// Hosts that are the only ones to hold some state after a change: losing all of them loses it.
struct CriticalHosts {
    std::vector<std::int32_t> hosts;  ///< ascending
    std::uint64_t bytes = 0;          ///< of which only these hosts have copies

    friend bool operator==(const CriticalHosts&, const CriticalHosts&) = default;
};

/// What the new ranks' state survives.
struct Survival {
    int copies = 0;                                ///< hosts that hold the state with the fewest copies
    std::vector<CriticalHosts> critical;           ///< the sets of so many hosts, sorted by hosts
    std::map<int, std::uint64_t> bytes_by_copies;  ///< distinct bytes by the number of hosts that hold them

    /// Any so many hosts can be lost without losing state.
    int spared() const { return copies > 0 ? copies - 1 : 0; }
    /// Bytes to copy so that all state has one copy more than the fewest.
    std::uint64_t next_copy() const { return copies > 0 ? bytes_by_copies.begin()->second : 0; }
};

/// The survival of the state that `parcels` bring to the new ranks, which are placed as `placement` says.
Survival survival_of(const Parcels& parcels, std::span<const Host> hosts, const Placement& placement);

}  // namespace tpx
