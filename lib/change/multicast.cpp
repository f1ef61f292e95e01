// SPDX-License-Identifier: Apache-2.0
#include "lib/change/multicast.hpp"

#include <algorithm>
#include <unordered_map>

// Why any shares can be executed. Consider one byte in one group, where the shares say how often each host sends it.
// Start a tree with the hosts that hold the byte as roots, and add the other hosts in descending order of the copies
// that they send. A host in the tree with a copy left to send always exists, because the copies add up to the number of
// needers (without holders: to all but one, which is added first, as the root) and a holder sends at least one. The
// same is true one level up, for groups without holders as nodes and the hosts of all other groups as roots.
//
// Readers send only first copies and copies that no other host can send, so they send and read a byte only once.

namespace tpx {

Multicast make_multicast(std::uint64_t bytes, std::span<const std::int32_t> holders,
                         std::span<const std::int32_t> readers, std::span<const std::int32_t> needers,
                         std::span<const std::uint32_t> group_of) {
    Multicast multicast{bytes, {}, {}, {}};
    std::unordered_map<std::uint32_t, std::size_t> places;
    const auto group = [&](std::int32_t host) -> Multicast::HostGroup& {
        const auto [found, is_new] = places.try_emplace(group_of[host], multicast.groups.size());
        if (is_new) multicast.groups.push_back({group_of[host], {}, {}, {}, {}, {}});
        return multicast.groups[found->second];
    };
    for (std::int32_t host : holders) group(host).holders.push_back(host);
    for (std::int32_t host : readers) group(host).readers.push_back(host);
    for (std::int32_t host : needers) group(host).needers.push_back(host);
    return multicast;
}

void for_each_demand(Multicast& multicast, const DemandVisitor& visit) {
    Senders all;
    std::vector<std::int32_t> near;  // needers in groups with holders or readers
    std::uint64_t entered = 0;
    const auto append = [](std::vector<std::int32_t>& to, const std::vector<std::int32_t>& from) {
        to.insert(to.end(), from.begin(), from.end());
    };
    for (Multicast::HostGroup& group : multicast.groups) {
        append(all.holders, group.holders);
        append(all.readers, group.readers);
        append(all.relays, group.needers);
        const bool is_held = !group.holders.empty() || !group.readers.empty();
        if (is_held) append(near, group.needers);
        if (!is_held) ++entered;
        if (group.needers.empty()) continue;
        if (is_held) visit({group.readers, group.holders, {}}, 1, group.first);
        if (group.needers.size() > 1) visit({{}, group.holders, group.needers}, group.needers.size() - 1, group.rest);
    }
    for (auto* set : {&all.holders, &all.readers, &all.relays, &near}) std::ranges::sort(*set);
    if (entered > 0)
        visit({near.empty() ? all.readers : std::vector<std::int32_t>{}, all.holders, near}, 1, multicast.entry);
    if (entered > 1) visit({{}, all.holders, all.relays}, entered - 1, multicast.entries);
}

}  // namespace tpx
