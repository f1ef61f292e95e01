// SPDX-License-Identifier: Apache-2.0
#include "lib/change/least_times.hpp"

#include "lib/change/mapped_rank_sets.hpp"
#include "lib/change/rank_locations.hpp"

#include <algorithm>

namespace tpx {
namespace {

/// What a block needs, in bytes.
struct Needs {
    std::uint64_t held = 0;           ///< held by some host
    std::uint64_t lost = 0;           ///< held by none
    std::vector<std::uint64_t> here;  ///< held by each host
};

std::vector<Needs> needs_of(const Parcels& parcels, std::span<const Host> hosts,
                            std::span<const RankLocation> old_ranks, std::span<const Block> blocks) {
    std::vector<std::int32_t> block_of;
    for (std::int32_t b = 0; b < std::ssize(blocks); ++b)
        block_of.resize(static_cast<std::size_t>(blocks[static_cast<std::size_t>(b)].end), b);
    const MappedRankSets holding = map_rank_sets(parcels.holders, old_rank_hosts(hosts, old_ranks, parcels.old_ranks));
    const MappedRankSets needing = map_rank_sets(parcels.needers, block_of);
    std::vector<Needs> needs(blocks.size(), {0, 0, std::vector<std::uint64_t>(hosts.size(), 0)});
    for (const Amount& amount : sum_amounts(amounts(parcels), holding.set, needing.set)) {
        const auto on = holding.sets[amount.holders];
        for (std::int32_t block : needing.sets[amount.needers]) {
            Needs& own = needs[static_cast<std::size_t>(block)];
            (on.empty() ? own.lost : own.held) += amount.bytes;
            for (std::int32_t host : on) own.here[static_cast<std::size_t>(host)] += amount.bytes;
        }
    }
    return needs;
}

double least_time(const Needs& needs, std::uint32_t h, const Host& host, StateMedium state) {
    const double nic = host.nic.value_or(default_rates.nic);
    const double read = host.disk_read.value_or(default_rates.disk_read);
    const double write = host.disk_write.value_or(default_rates.disk_write);
    const auto all = static_cast<double>(needs.held + needs.lost);
    if (state == StateMedium::shared) return all / read;
    const double receives = static_cast<double>(needs.held - needs.here[h]) / nic;
    if (state == StateMedium::memory) return receives;
    return std::max({receives, static_cast<double>(needs.here[h] + needs.lost) / read, all / write});
}

}  // namespace

std::vector<std::vector<double>> least_times(const Parcels& parcels, std::span<const Host> hosts,
                                             std::span<const RankLocation> old_ranks, StateMedium state,
                                             std::span<const Block> blocks, std::span<const std::uint32_t> choice) {
    const std::vector<Needs> needs = needs_of(parcels, hosts, old_ranks, blocks);
    std::vector<std::vector<double>> times;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
        std::vector<double>& row = times.emplace_back();
        for (std::uint32_t h : choice) {
            const bool fits = free_devices(hosts[h]) >= blocks[b].end - blocks[b].begin;
            row.push_back(fits ? least_time(needs[b], h, hosts[h], state) : -1.0);
        }
    }
    return times;
}

}  // namespace tpx
