// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// New ranks that share a host: begin up to end.
struct Block {
    std::int32_t begin = 0;
    std::int32_t end = 0;
    std::uint32_t host = 0;
    std::int64_t price = 0;  ///< see Placement
};

/// Which device each new rank runs on.
///
/// Blocks are consecutive ranks, as many as the hosts that take ranks have devices, in their order (spare hosts last);
/// a block may stand on any host that is not lost and has at least as many devices. Let c(b, h) be the bytes that the
/// ranks of block b need, each once, and host h does not hold. The prices prove that no assignment of blocks to hosts
/// costs less: block.price + host_price <= c(b, h) for every b and h that fits, with equality where b stands, and
/// host prices are 0 where no block stands and never positive. Spare hosts are looked at only when the others are too
/// few. Then the comparison is among assignments that use as few of them as can be: all other hosts have a block in
/// each of those, so that the prices of hosts that are not spare may be positive too.
struct Placement {
    std::vector<std::int32_t> devices;  ///< of each new rank
    std::vector<Block> blocks;
    std::vector<std::int64_t> host_prices;
    std::uint64_t crossing = 0;  ///< sum of c over the blocks: what must come into hosts from elsewhere
    bool pinned = false;         ///< the order was given, nothing was chosen and prices are 0
};

/// The blocks of `ranks` new ranks, each on the host for which it was cut: the given order, before anything is chosen.
/// Throws Error (usage) when the ranks do not fit on the hosts.
std::vector<Block> blocks_in_order(std::span<const Host> hosts, int ranks);

/// The best placement; among equally good ones one in which the host that receives longest, by the rate of its NIC, is
/// done first (where NICs differ; among up to 2^20 pairs of block and host), or one that leaves most blocks where the
/// given order puts them (where NICs are alike). Ranks go to the devices of their host so that most bytes are there
/// already, again in order where that costs nothing. `pinned`: the given order itself, of blocks and of ranks. Throws
/// Error (usage) when the ranks do not fit on the hosts, a seat is not there, or the ranks need 2^62 bytes or more
/// together.
Placement place(const Parcels& parcels, std::span<const Host> hosts, std::span<const Seat> old_ranks, bool pinned);

}  // namespace tpx
