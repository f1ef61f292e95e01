// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/relay_trees.hpp"
#include "lib/change/relocation.hpp"
#include "lib/change/senders.hpp"
#include "lib/change/whereabouts.hpp"

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

/// Bytes that some hosts forward: they go along all `hops`, which are sorted by depth.
struct Stream {
    std::vector<Hop> hops;
    std::vector<ParcelRange> ranges;

    std::uint64_t bytes() const {
        std::uint64_t sum = 0;
        for (const ParcelRange& range : ranges) sum += range.size();
        return sum;
    }
};

/// What must be sent, without rounds.
struct Transfers {
    std::vector<Transfer> direct;  ///< from hosts that hold the bytes, or storage; the receivers keep them
    std::vector<Stream> streams;
    SendingBound sending;
};

/// What hosts need and do not hold, from the senders that Relocation speaks of. What no host holds is read from storage
/// by each host. All ranges end at elements.
Transfers choose_transfers(const Parcels& parcels, std::span<const Host> hosts, const Whereabouts& whereabouts,
                           StateIn state, std::span<const SendRate> rates);

}  // namespace tpx
