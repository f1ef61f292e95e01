// SPDX-License-Identifier: Apache-2.0
#include "lib/change/demand_groups.hpp"

#include <map>

namespace tpx {
namespace {

std::optional<std::uint32_t> only_sender(const RankSets& sets, const Demand& demand) {
    std::optional<std::uint32_t> only;
    for (std::uint32_t set : {demand.readers, demand.holders, demand.relays}) {
        if (sets[set].size() > 1 || (only && !sets[set].empty())) return std::nullopt;
        if (!sets[set].empty()) only = static_cast<std::uint32_t>(sets[set].front());
    }
    return only;
}

}  // namespace

GroupedDemands group_demands(const RankSets& sets, std::span<const Demand> demands) {
    GroupedDemands result;
    std::map<std::array<std::uint32_t, 3>, std::size_t> numbers;
    for (std::uint32_t d = 0; d < demands.size(); ++d) {
        const Demand& demand = demands[d];
        result.only.push_back(only_sender(sets, demand));
        if (result.only.back()) continue;
        const std::array<std::uint32_t, 3> senders{demand.readers, demand.holders, demand.relays};
        const auto [found, added] = numbers.try_emplace(senders, result.groups.size());
        if (added) result.groups.push_back({senders, 0, {}});
        result.groups[found->second].demands.push_back(d);
        result.groups[found->second].bytes += demand.bytes;
    }
    return result;
}

}  // namespace tpx
