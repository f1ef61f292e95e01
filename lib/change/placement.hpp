// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/cut_blocks.hpp"
#include "lib/change/hosts.hpp"
#include "lib/change/parcel.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// Where an old rank's state is.
struct Seat {
    std::int32_t host = -1;    ///< -1: nowhere any more
    std::int32_t device = -1;  ///< counted over all hosts (see first_devices); -1: in the host's store, on no device

    friend bool operator==(const Seat&, const Seat&) = default;
};

/// What a placement was chosen for. The numbers are those of tpx-plan(5).
enum class PlacedFor : std::uint8_t {
    bytes = 0,     ///< fewest bytes between hosts: prices prove it
    order = 1,     ///< nothing: ranks are on the hosts in order
    sequence = 2,  ///< fewest bytes of a sequence of changes
    time = 3,      ///< the shortest predicted time, see place_for_time()
    groups = 4     ///< fewest bytes with each TP group placed on its own, see place_groups()
};

/// Which device each new rank runs on.
///
/// Blocks are those of cut_blocks(); a block may stand on any host that has at least as many devices that are not lost.
/// Let c(b, h) be the bytes that the
/// ranks of block b need, each once, and host h does not hold. The prices prove that no assignment of blocks to hosts
/// costs less: block.price + host_price <= c(b, h) for every b and h that fits, with equality where b stands, and
/// host prices are 0 where no block stands and never positive. Spare hosts are looked at only when a block was cut for
/// one. Then the comparison is among assignments in which every other host for which a block was cut has one, so that
/// the prices of those hosts may be positive too. Placements that are not for bytes have prices of 0. Those for groups
/// have blocks of whole groups, several of which may be on one host, and prices that prove `group_bound`, see
/// GroupBound.
struct Placement {
    std::vector<std::int32_t> devices;  ///< of each new rank
    std::vector<Block> blocks;
    std::vector<std::int64_t> host_prices;
    std::uint64_t crossing = 0;  ///< sum of c over the blocks: what must come into hosts from elsewhere
    PlacedFor placed_for = PlacedFor::bytes;
    int group = 1;                           ///< consecutive ranks that blocks split only where there is no other way
    std::vector<std::int64_t> group_prices;  ///< only of a placement for groups
    std::uint64_t group_bound = 0;           ///< likewise

    /// Whether the prices prove that no placement in blocks has fewer crossing bytes.
    bool is_proven() const { return placed_for == PlacedFor::bytes; }
};

/// The best placement; among equally good ones one in which the host that receives longest, by the rate of its NIC, is
/// done first (where NICs differ; among up to 2^20 pairs of block and host), or one that leaves most blocks where the
/// given order puts them (where NICs are alike). Ranks go to the devices of their host so that most bytes are there
/// already, again in order where that costs nothing. `pinned`: the given order itself, of blocks and of ranks. `group`:
/// see cut_blocks(). Throws Error (usage) when the ranks do not fit on the hosts, a seat is not there, or the ranks
/// need 2^62 bytes or more together.
Placement place(const Parcels& parcels, std::span<const Host> hosts, std::span<const Seat> old_ranks, bool pinned,
                int group = 1);

}  // namespace tpx
