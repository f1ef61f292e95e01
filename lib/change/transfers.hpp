// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/relay_trees.hpp"
#include "lib/change/relocation.hpp"
#include "lib/change/senders.hpp"
#include "lib/change/state_locations.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// Bytes of a parcel.
struct ParcelRange {
    std::uint32_t parcel = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;

    std::uint64_t size() const { return end - begin; }
};

/// Bytes that some hosts forward. They go along all `hops`, which are sorted by depth.
struct Stream {
    std::vector<Hop> hops;
    std::vector<ParcelRange> ranges;

    std::uint64_t bytes() const {
        std::uint64_t sum = 0;
        for (const ParcelRange& range : ranges) sum += range.size();
        return sum;
    }
};

/// The bytes to send, not yet assigned to rounds.
struct Transfers {
    std::vector<Transfer> direct;  ///< from hosts that hold the bytes or from storage; receivers do not forward them
    std::vector<Stream> streams;
    SendingBound sending;
};

/// Chooses senders for the bytes that hosts need and do not hold, by the rules of relocate(). Bytes that no host holds
/// are read from storage by each host that needs them. All ranges end at element boundaries.
Transfers choose_transfers(const Parcels& parcels, std::span<const Host> hosts, const StateLocations& locations,
                           StateMedium state, std::span<const SendRate> rates);

}  // namespace tpx
