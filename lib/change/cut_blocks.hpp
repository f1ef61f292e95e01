// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/hosts.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// Consecutive new ranks on one host: from begin up to, but not including, end.
struct Block {
    std::int32_t begin = 0;
    std::int32_t end = 0;
    std::uint32_t host = 0;
    std::int64_t price = 0;  ///< see Placement
};

/// Hosts that can take ranks: first those that are not spare, in their order, then spare hosts, those with the most
/// free devices first.
std::vector<std::uint32_t> hosts_for_ranks(std::span<const Host> hosts);

/// Cuts `ranks` new ranks into blocks of consecutive ranks, one block per host in the order of hosts_for_ranks(). Each
/// block is on the host for which it was cut; a placement may move it to another host later.
///
/// `group` consecutive ranks form a group; `group` divides `ranks`. Only as many spare hosts are used as necessary for
/// all groups to fit whole on hosts or, if that is impossible even with all spare hosts, for all ranks to fit. If the
/// devices of a host end inside a group, the devices of that group stay idle, provided that the used hosts have enough
/// more devices than ranks. So no group is split if all groups fit whole. Groups larger than every used host are
/// ignored. Throws Error (usage) if the ranks do not fit on the hosts.
std::vector<Block> cut_blocks(std::span<const Host> hosts, int ranks, int group);

/// The hosts to which blocks can be assigned. They include spare hosts only if a block was cut for one; then each host
/// that is not spare and for which a block was cut must get a block.
struct HostChoice {
    std::vector<std::uint32_t> hosts;  ///< in the order of hosts_for_ranks()
    std::vector<bool> wanted;          ///< for each of them, whether it must get a block; empty: none must
};
HostChoice hosts_for_blocks(std::span<const Host> hosts, std::span<const Block> blocks);

/// The groups of `group` consecutive ranks that are in more than one of `blocks`, ascending.
std::vector<std::int32_t> split_groups(std::span<const Block> blocks, int group);

}  // namespace tpx
