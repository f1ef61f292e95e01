// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/senders.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tpx {

/// Demands with the same senders, of which there are several.
struct DemandGroup {
    std::array<std::uint32_t, 3> sets{};  ///< of readers, holders and relays
    std::uint64_t bytes = 0;              ///< of all demands together
    std::vector<std::uint32_t> demands;
};

struct GroupedDemands {
    std::vector<DemandGroup> groups;                 ///< of the demands with several senders
    std::vector<std::optional<std::uint32_t>> only;  ///< of each demand, the host that alone may send it
};

/// Groups `demands`, whose senders are numbers in `sets`.
GroupedDemands group_demands(const RankSets& sets, std::span<const Demand> demands);

}  // namespace tpx
