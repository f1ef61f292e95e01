// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/senders.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tpx {

/// Demands that have the same possible senders, at least two.
struct DemandGroup {
    std::array<std::uint32_t, 3> sets{};  ///< of readers, holders and relays
    std::uint64_t bytes = 0;              ///< of all demands together
    std::vector<std::uint32_t> demands;
};

struct GroupedDemands {
    std::vector<DemandGroup> groups;                 ///< groups of the demands with several possible senders
    std::vector<std::optional<std::uint32_t>> only;  ///< for each demand, its only sender; nothing if it has several
};

/// Groups `demands`, whose senders are numbers of sets in `sets`.
GroupedDemands group_demands(const RankSets& sets, std::span<const Demand> demands);

}  // namespace tpx
