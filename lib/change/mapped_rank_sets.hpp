// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/parcel.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// Sets of ranks, mapped to sets of what the ranks are on: hosts, devices or blocks.
struct MappedRankSets {
    RankSets sets;                   ///< of hosts, devices or blocks, not of ranks
    std::vector<std::uint32_t> set;  ///< for each set of ranks, its number in `sets`

    /// What the ranks of set `number` are on, ascending, each once.
    std::span<const std::int32_t> operator[](std::uint32_t number) const { return sets[set[number]]; }
};

/// The images of all `sets` if rank r is on image_of[r]; negative: on nothing.
MappedRankSets map_rank_sets(const RankSets& sets, std::span<const std::int32_t> image_of);

/// Bytes that one set of ranks holds and another needs, whatever their roles.
struct Amount {
    std::uint32_t holders = 0;
    std::uint32_t needers = 0;
    std::uint64_t bytes = 0;
};

/// `amounts` with their sets renumbered and added up: one for each pair of new numbers, sorted by needers, then
/// holders.
std::vector<Amount> sum_amounts(std::span<const Amount> amounts, std::span<const std::uint32_t> holders,
                                std::span<const std::uint32_t> needers);

/// The amounts of `parcels`, in the same order.
std::vector<Amount> amounts(const Parcels& parcels);

}  // namespace tpx
