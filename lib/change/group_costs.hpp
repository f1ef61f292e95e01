// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/images.hpp"
#include "lib/change/placement.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// The column of each group.
using GroupColumns = std::vector<std::uint32_t>;

/// Whole groups of ranks, hosts that can take them, and the bytes that groups need and hosts hold.
struct GroupNeeds {
    GroupNeeds(const Parcels& parcels, std::span<const Host> hosts, std::span<const Seat> old_ranks,
               const Placement& start);

    std::size_t groups() const { return amounts_of.size(); }
    std::size_t columns() const { return hosts.size(); }
    std::uint64_t places() const;  ///< for groups, on all hosts together

    int size = 1;                                        ///< ranks of a group
    std::vector<std::uint32_t> hosts;                    ///< the columns
    std::vector<std::uint32_t> capacities;               ///< groups that each column can take
    RankSets holding;                                    ///< sets of columns
    RankSets needing;                                    ///< sets of groups
    std::vector<Amount> amounts;                         ///< of these sets
    std::vector<std::vector<std::uint32_t>> amounts_of;  ///< of each group, the amounts that it needs
};

/// The bytes that cross into hosts while groups are put on them and taken away.
class GroupCosts {
public:
    explicit GroupCosts(const GroupNeeds& needs);

    void add(std::uint32_t group, std::uint32_t column);
    void remove(std::uint32_t group, std::uint32_t column);
    std::uint64_t crossing() const { return crossing_; }
    std::uint64_t steps() const { return steps_; }  ///< how much work was done so far

private:
    const GroupNeeds& needs_;
    std::vector<std::uint16_t> counts_;  // of amounts and columns: groups there that need it, and 1 if it is held there
    std::uint64_t crossing_ = 0;
    std::uint64_t steps_ = 0;
};

}  // namespace tpx
