// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/hosts.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// New ranks that share a host: begin up to end.
struct Block {
    std::int32_t begin = 0;
    std::int32_t end = 0;
    std::uint32_t host = 0;
    std::int64_t price = 0;  ///< see Placement
};

/// Hosts that can take ranks, those that are not spare first.
std::vector<std::uint32_t> hosts_for_ranks(std::span<const Host> hosts);

/// Cuts `ranks` new ranks into blocks of consecutive ranks, each on the host for which it was cut, before anything is
/// chosen. Hosts come in the order of hosts_for_ranks(), with the fewest spare hosts on which all groups of `group`
/// consecutive ranks fit whole or, if they do not fit even with all spare hosts, on which the ranks fit. A host whose
/// devices end inside a group leaves the devices of that group idle, if these hosts have more devices than ranks need
/// and hosts before it did not use them up. So no group is split where all of them fit on hosts whole.
/// `group` divides `ranks`. Groups larger than any of the hosts are not looked at. Throws Error (usage) when the ranks
/// do not fit on the hosts.
std::vector<Block> cut_blocks(std::span<const Host> hosts, int ranks, int group);

/// The hosts to which blocks are assigned. Spare hosts are among them only if a block was cut for one; then each of the
/// others for which a block was cut must get a block.
struct HostChoice {
    std::vector<std::uint32_t> hosts;  ///< in the order of hosts_for_ranks()
    std::vector<bool> wanted;          ///< of each of these, whether it must get a block; empty: none must
};
HostChoice hosts_for_blocks(std::span<const Host> hosts, std::span<const Block> blocks);

/// The groups of `group` consecutive ranks that are in more than one of `blocks`, ascending.
std::vector<std::int32_t> split_groups(std::span<const Block> blocks, int group);

}  // namespace tpx
