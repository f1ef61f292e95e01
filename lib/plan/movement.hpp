// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/plan/hosts.hpp"
#include "lib/plan/load.hpp"
#include "lib/plan/plan.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// What every rank holds in memory before and after a change of layout. A piece is what its `rank`, which must not be
/// negative, holds (replicas are pieces too); files and offsets are not looked at. Bytes are counted in the source's
/// dtypes: what a cast makes of them is made where they arrive.
struct Change {
    Side source;
    Side target;
    std::span<const Host> hosts;
    std::span<const std::uint32_t> source_hosts;  ///< the host of each old rank
    std::span<const std::uint32_t> target_hosts;  ///< the host of each new rank
    std::span<const std::uint32_t> roles;         ///< of each tensor, counted from 0; empty: all have role 0
};

/// A box of a tensor that goes from one host to another.
struct Crossing {
    std::uint32_t tensor = 0;
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    Box box;
};

struct Movement {
    Bytes total;
    std::vector<Bytes> roles;         ///< by role
    std::vector<Load> hosts;          ///< by host; nothing is read or written
    std::vector<Crossing> crossings;  ///< sorted by tensor, receiving host, box; no element reaches a host twice
    /// The least that any choice of sources moves between hosts for these placements: the sum over hosts of the bytes
    /// they need and do not hold. Counted by itself, from unions of boxes, not from the crossings.
    std::uint64_t bound = 0;

    bool meets_bound() const { return total.other_host == bound; }
};

/// What must move. Sources are chosen by locality: the same rank, the same host, then the other host whose NIC would
/// be done first, the largest boxes first. Throws Error "tensor 'NAME': nothing holds [box] (N of M elements)", and
/// Error (usage) when a rank has no host.
Movement movement(const Change& change);

}  // namespace tpx
