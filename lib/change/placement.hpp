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
struct RankLocation {
    std::int32_t host = -1;  ///< -1: the state is lost
    std::int32_t device =
        -1;  ///< numbered across all hosts, see first_devices(); -1: in the host's store, not on a device

    friend bool operator==(const RankLocation&, const RankLocation&) = default;
};

/// What a placement was chosen for. The numbers are those of tpx-plan(5).
enum class PlacementGoal : std::uint8_t {
    bytes = 0,     ///< fewest bytes between hosts: prices prove it
    order = 1,     ///< nothing: ranks are on the hosts in order
    sequence = 2,  ///< fewest bytes of a sequence of changes
    time = 3,      ///< the shortest predicted time, see place_for_time()
    groups = 4     ///< fewest bytes with each TP group placed on its own, see place_groups()
};

/// Which device each new rank runs on.
///
/// Blocks are those of cut_blocks(). A block can be on any host that has enough devices that are not lost. Let c(b, h)
/// be the bytes that the ranks of block b need, each counted once, and host h does not hold. The prices prove that no
/// assignment of blocks to hosts costs less: block.price + host_price <= c(b, h) for every b and h that fits, with
/// equality if b is on h; host prices are 0 for hosts without a block and never positive. Spare hosts are considered
/// only if a block was cut for one. Then only assignments count in which every other host for which a block was cut has
/// a block, so the prices of those hosts may also be positive. Placements that are not for bytes have prices of 0.
/// Those for groups have blocks of whole groups, several of which may be on one host, and prices that prove
/// `group_bound`, see GroupBound.
struct Placement {
    std::vector<std::int32_t> devices;  ///< of each new rank
    std::vector<Block> blocks;
    std::vector<std::int64_t> host_prices;
    std::uint64_t crossing = 0;  ///< sum of c over the blocks: bytes that must come into hosts from elsewhere
    PlacementGoal placed_for = PlacementGoal::bytes;
    int group = 1;                           ///< consecutive ranks that blocks split only if necessary
    std::vector<std::int64_t> group_prices;  ///< only for PlacementGoal::groups
    std::uint64_t group_bound = 0;           ///< only for PlacementGoal::groups

    /// Whether the prices prove that no placement in blocks has fewer crossing bytes.
    bool is_proven() const { return placed_for == PlacementGoal::bytes; }
};

/// The placement with the fewest crossing bytes. Ties are broken as follows: if NIC rates differ (and there are at most
/// 2^20 pairs of block and host), the host that receives longest finishes first; if NICs are alike, most blocks stay
/// where the given order puts them. Ranks are placed on the devices of their host so that most bytes are already there;
/// ties keep them in order. `pinned`: the given order itself, of blocks and of ranks. `group`: see cut_blocks(). Throws
/// Error (usage) if the ranks do not fit on the hosts, a location does not exist, or the ranks together need 2^62 bytes
/// or more.
Placement place(const Parcels& parcels, std::span<const Host> hosts, std::span<const RankLocation> old_ranks,
                bool pinned, int group = 1);

}  // namespace tpx
