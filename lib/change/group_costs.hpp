// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/mapped_rank_sets.hpp"
#include "lib/change/placement.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// The column of each group.
using GroupColumns = std::vector<std::uint32_t>;

/// Whole groups of ranks, the hosts that can take them, and the bytes that groups need and hosts hold.
struct GroupNeeds {
    GroupNeeds(const Parcels& parcels, std::span<const Host> hosts, std::span<const RankLocation> old_ranks,
               const Placement& start);

    std::size_t groups() const { return amounts_of.size(); }
    std::size_t columns() const { return hosts.size(); }
    std::uint64_t places() const;  ///< number of groups that all hosts together can take

    int size = 1;                                        ///< ranks per group
    std::vector<std::uint32_t> hosts;                    ///< the host of each column
    std::vector<std::uint32_t> capacities;               ///< groups that each column can take
    RankSets holding;                                    ///< sets of columns
    RankSets needing;                                    ///< sets of groups
    std::vector<Amount> amounts;                         ///< in terms of these sets
    std::vector<std::vector<std::uint32_t>> amounts_of;  ///< for each group, the amounts that it needs
};

/// Tracks the bytes that cross into hosts while groups are added to and removed from them.
class GroupCosts {
public:
    explicit GroupCosts(const GroupNeeds& needs);

    void add(std::uint32_t group, std::uint32_t column);
    void remove(std::uint32_t group, std::uint32_t column);
    std::uint64_t crossing() const { return crossing_; }
    std::uint64_t steps() const { return steps_; }  ///< work done so far

private:
    const GroupNeeds& needs_;
    std::vector<std::uint16_t> counts_;  // by amount and column: groups there that need it, plus 1 if it is held there
    std::uint64_t crossing_ = 0;
    std::uint64_t steps_ = 0;
};

}  // namespace tpx
