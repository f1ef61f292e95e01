// SPDX-License-Identifier: Apache-2.0
#include "lib/change/group_costs.hpp"

#include "lib/change/rank_locations.hpp"

#include <numeric>

namespace tpx {

GroupNeeds::GroupNeeds(const Parcels& parcels, std::span<const Host> all_hosts, std::span<const RankLocation> old_ranks,
                       const Placement& start)
    : size{start.group}, hosts{hosts_for_blocks(all_hosts, start.blocks).hosts} {
    std::erase_if(hosts, [&](std::uint32_t host) { return free_devices(all_hosts[host]) < size; });
    std::vector<std::int32_t> column_of(all_hosts.size(), -1);
    for (std::size_t c = 0; c < hosts.size(); ++c) {
        column_of[hosts[c]] = static_cast<std::int32_t>(c);
        capacities.push_back(static_cast<std::uint32_t>(free_devices(all_hosts[hosts[c]]) / size));
    }
    std::vector<std::int32_t> columns_of_ranks;
    for (std::int32_t host : old_rank_hosts(all_hosts, old_ranks, parcels.old_ranks))
        columns_of_ranks.push_back(host < 0 ? -1 : column_of[static_cast<std::size_t>(host)]);
    std::vector<std::int32_t> group_of(static_cast<std::size_t>(parcels.new_ranks));
    for (std::int32_t rank = 0; rank < parcels.new_ranks; ++rank)
        group_of[static_cast<std::size_t>(rank)] = rank / size;

    MappedRankSets on = map_rank_sets(parcels.holders, columns_of_ranks);
    MappedRankSets by = map_rank_sets(parcels.needers, group_of);
    amounts = sum_amounts(tpx::amounts(parcels), on.set, by.set);
    holding = std::move(on.sets);
    needing = std::move(by.sets);
    amounts_of.resize(static_cast<std::size_t>((parcels.new_ranks + size - 1) / size));
    for (std::uint32_t a = 0; a < amounts.size(); ++a) {
        for (std::int32_t group : needing[amounts[a].needers]) amounts_of[static_cast<std::size_t>(group)].push_back(a);
    }
}

std::uint64_t GroupNeeds::places() const {
    return std::accumulate(capacities.begin(), capacities.end(), std::uint64_t{0});
}

GroupCosts::GroupCosts(const GroupNeeds& needs) : needs_{needs}, counts_(needs.amounts.size() * needs.columns(), 0) {
    for (std::size_t a = 0; a < needs.amounts.size(); ++a) {
        for (std::int32_t column : needs.holding[needs.amounts[a].holders])
            counts_[a * needs.columns() + static_cast<std::size_t>(column)] = 1;
    }
}

void GroupCosts::add(std::uint32_t group, std::uint32_t column) {
    for (std::uint32_t a : needs_.amounts_of[group]) {
        if (counts_[a * needs_.columns() + column]++ == 0) crossing_ += needs_.amounts[a].bytes;
    }
    steps_ += needs_.amounts_of[group].size() + 1;
}

void GroupCosts::remove(std::uint32_t group, std::uint32_t column) {
    for (std::uint32_t a : needs_.amounts_of[group]) {
        if (--counts_[a * needs_.columns() + column] == 0) crossing_ -= needs_.amounts[a].bytes;
    }
    steps_ += needs_.amounts_of[group].size() + 1;
}

}  // namespace tpx
