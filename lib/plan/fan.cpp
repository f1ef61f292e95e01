// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/fan.hpp"

#include <algorithm>

// Why any shares will do. One byte has, in a group, as many children to give as copies: hosts that hold it are roots,
// and if those that have most children join first, a parent that lacks a child is always there, as the copies add up
// to the needers (without holders: to all but one, which joins first, as the root) and a holder has one at least. The
// same holds one level up for groups that are entered, with the hosts of all other groups as roots.

namespace tpx {

Fan make_fan(std::uint64_t bytes, std::span<const std::int32_t> holders, std::span<const std::int32_t> needers,
             std::span<const std::uint32_t> group_of) {
    Fan fan{bytes, {}, {}, {}};
    const auto group = [&](std::int32_t host) -> Fan::Group& {
        const std::uint32_t number = group_of[host];
        const auto found = std::ranges::find(fan.groups, number, &Fan::Group::number);
        if (found != fan.groups.end()) return *found;
        return fan.groups.emplace_back(Fan::Group{number, {}, {}, {}, {}});
    };
    for (std::int32_t host : holders) group(host).holders.push_back(host);
    for (std::int32_t host : needers) group(host).needers.push_back(host);
    return fan;
}

void for_each_demand(Fan& fan, const DemandVisitor& visit) {
    std::vector<std::int32_t> holders;
    std::vector<std::int32_t> near;  // needers in groups with holders
    std::vector<std::int32_t> needers;
    std::uint64_t entered = 0;
    for (Fan::Group& group : fan.groups) {
        holders.insert(holders.end(), group.holders.begin(), group.holders.end());
        needers.insert(needers.end(), group.needers.begin(), group.needers.end());
        if (group.holders.empty())
            ++entered;
        else
            near.insert(near.end(), group.needers.begin(), group.needers.end());
        if (group.needers.empty()) continue;
        if (!group.holders.empty()) visit(group.holders, {}, 1, group.first);
        if (group.needers.size() > 1) visit(group.holders, group.needers, group.needers.size() - 1, group.rest);
    }
    for (auto* set : {&holders, &near, &needers}) std::ranges::sort(*set);
    if (entered > 0) visit(holders, near, 1, fan.entry);
    if (entered > 1) visit(holders, needers, entered - 1, fan.entries);
}

}  // namespace tpx
