// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/mapped_rank_sets.hpp"
#include "lib/change/placement.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// Where the state is and where it is needed.
struct StateLocations {
    StateLocations(const Parcels& parcels, std::span<const Host> hosts, std::span<const RankLocation> old_ranks,
                   const Placement& placement);

    std::vector<std::int32_t> old_hosts;  ///< the host of each old rank; -1: none, or it is lost
    MappedRankSets holding;               ///< hosts of the sets of holders; lost hosts hold nothing
    MappedRankSets on;                    ///< devices of the sets of holders
    MappedRankSets needing;               ///< hosts of the sets of needers
    std::vector<std::int32_t> new_hosts;  ///< the host of each new rank
};

/// The bytes that hosts need with `placement` and do not hold.
std::uint64_t crossing_bytes(const Parcels& parcels, std::span<const Host> hosts,
                             std::span<const RankLocation> old_ranks, const Placement& placement);

/// The host of each of `devices`, which are numbered across all hosts.
std::vector<std::int32_t> hosts_of_devices(std::span<const Host> hosts, std::span<const std::int32_t> devices);

}  // namespace tpx
