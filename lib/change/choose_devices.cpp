// SPDX-License-Identifier: Apache-2.0
#include "lib/change/choose_devices.hpp"

#include "lib/change/rank_locations.hpp"
#include "lib/solve/assignment.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace tpx {
namespace {

/// The ranks and devices of one host. Both are numbered across all hosts.
struct HostRanks {
    std::vector<std::int32_t> ranks;
    std::vector<std::int32_t> devices;  ///< that are not lost
    std::vector<Gain> gains;            ///< rows are positions in `ranks`, columns in `devices`
};

std::vector<HostRanks> ranks_by_host(std::span<const Host> hosts, std::span<const Block> blocks) {
    std::vector<HostRanks> by_host(hosts.size());
    const std::vector<std::int32_t> firsts = first_devices(hosts);
    for (const Block& block : blocks) {
        HostRanks& own = by_host[block.host];
        for (std::int32_t rank = block.begin; rank < block.end; ++rank) own.ranks.push_back(rank);
        if (!own.devices.empty()) continue;
        for (std::int32_t device = 0; device < hosts[block.host].gpus; ++device) {
            if (!is_lost(hosts[block.host], device)) own.devices.push_back(firsts[block.host] + device);
        }
    }
    return by_host;
}

/// Adds, for each rank and each device of its host, the bytes that the rank needs and the device holds.
void add_gains(const Parcels& parcels, std::span<const Amount> amounts, const MappedRankSets& on,
               std::span<const std::int32_t> firsts, std::span<const std::int32_t> host_of,
               std::vector<HostRanks>& by_host) {
    std::vector<std::uint32_t> row_of(host_of.size());
    for (const HostRanks& host : by_host) {
        for (std::uint32_t row = 0; row < host.ranks.size(); ++row) row_of[host.ranks[row]] = row;
    }
    for (const Amount& amount : amounts) {
        const auto holding = on[amount.holders];
        for (std::int32_t rank : parcels.needers[amount.needers]) {
            HostRanks& host = by_host[host_of[rank]];
            for (auto device = std::ranges::lower_bound(holding, firsts[host_of[rank]]);
                 device != holding.end() && *device < firsts[host_of[rank] + 1]; ++device) {
                const auto column = std::ranges::lower_bound(host.devices, *device) - host.devices.begin();
                host.gains.push_back({row_of[rank], static_cast<std::uint32_t>(column), amount.bytes});
            }
        }
    }
}

/// The column of each row, chosen greedily: pairs with the largest gains first. The remaining rows get the free
/// columns.
std::vector<std::uint32_t> largest_gains_first(std::size_t columns, std::size_t rows, std::vector<Gain> gains) {
    constexpr std::uint32_t none = ~0u;
    std::ranges::sort(gains, std::less{}, [](const Gain& gain) { return std::pair{gain.row, gain.column}; });
    std::vector<Gain> pairs;
    for (const Gain& gain : gains) {
        if (!pairs.empty() && pairs.back().row == gain.row && pairs.back().column == gain.column)
            pairs.back().gain += gain.gain;
        else
            pairs.push_back(gain);
    }
    std::ranges::stable_sort(pairs, std::greater{}, &Gain::gain);
    std::vector<std::uint32_t> column_of(rows, none);
    std::vector<bool> taken(columns);
    for (const Gain& pair : pairs) {
        if (column_of[pair.row] != none || taken[pair.column]) continue;
        column_of[pair.row] = pair.column;
        taken[pair.column] = true;
    }
    std::uint32_t free = 0;
    for (std::uint32_t& column : column_of) {
        if (column != none) continue;
        while (taken[free]) ++free;
        column = free++;
    }
    return column_of;
}

std::vector<std::uint32_t> choose_columns(HostRanks host) {
    // The best choice takes minutes for a host of 10,000 devices, such as that of a plan without --hosts. No real host
    // has so many, and the bytes between hosts do not depend on this choice.
    constexpr std::size_t most_for_best = 512;
    if (host.devices.size() > most_for_best)
        return largest_gains_first(host.devices.size(), host.ranks.size(), std::move(host.gains));
    AssignmentProblem problem;
    problem.rows.resize(host.ranks.size());
    problem.columns.resize(host.devices.size());
    problem.gains = std::move(host.gains);
    problem.given.resize(host.ranks.size());
    std::iota(problem.given.begin(), problem.given.end(), 0u);
    return assign(problem).columns;
}

}  // namespace

std::vector<std::int32_t> choose_devices(const Parcels& parcels, std::span<const Host> hosts,
                                         std::span<const RankLocation> old_ranks, std::span<const Block> blocks) {
    return choose_devices(parcels, amounts(parcels), hosts, old_ranks, blocks);
}

std::vector<std::int32_t> choose_devices(const Parcels& parcels, std::span<const Amount> amounts,
                                         std::span<const Host> hosts, std::span<const RankLocation> old_ranks,
                                         std::span<const Block> blocks) {
    std::vector<std::int32_t> host_of(static_cast<std::size_t>(parcels.new_ranks));
    for (const Block& block : blocks)
        std::fill(host_of.begin() + block.begin, host_of.begin() + block.end, static_cast<std::int32_t>(block.host));
    std::vector<HostRanks> by_host = ranks_by_host(hosts, blocks);
    add_gains(parcels, amounts, map_rank_sets(parcels.holders, old_rank_devices(hosts, old_ranks)),
              first_devices(hosts), host_of, by_host);
    std::vector<std::int32_t> devices(host_of.size());
    for (HostRanks& host : by_host) {
        if (host.ranks.empty()) continue;
        const std::vector<std::int32_t> ranks = host.ranks, free = host.devices;
        const std::vector<std::uint32_t> columns = choose_columns(std::move(host));
        for (std::size_t i = 0; i < ranks.size(); ++i) devices[ranks[i]] = free[columns[i]];
    }
    return devices;
}

std::vector<std::int32_t> devices_in_order(std::span<const Host> hosts, std::span<const Block> blocks) {
    std::vector<std::int32_t> devices;
    for (const HostRanks& host : ranks_by_host(hosts, blocks)) {
        for (std::size_t i = 0; i < host.ranks.size(); ++i) {
            const auto rank = static_cast<std::size_t>(host.ranks[i]);
            if (rank >= devices.size()) devices.resize(rank + 1);
            devices[rank] = host.devices[i];
        }
    }
    return devices;
}

}  // namespace tpx
