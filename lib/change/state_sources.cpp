// SPDX-License-Identifier: Apache-2.0
#include "lib/change/state_sources.hpp"

#include "lib/change/relocation.hpp"
#include "lib/core/error.hpp"

#include <algorithm>

namespace tpx {
namespace {

std::vector<bool> hosts_with_state(const Parcels& parcels, std::span<const Host> hosts,
                                   std::span<const RankLocation> old_ranks) {
    std::vector<bool> has(hosts.size(), false);
    for (std::uint32_t set = 0; set < parcels.holders.size(); ++set) {
        for (std::int32_t rank : parcels.holders[set]) {
            const std::int32_t host = old_ranks[static_cast<std::size_t>(rank)].host;
            if (host >= 0 && !hosts[static_cast<std::size_t>(host)].lost) has[static_cast<std::size_t>(host)] = true;
        }
    }
    return has;
}

}  // namespace

std::vector<StateSource> sources_of(const Parcels& parcels, std::span<const Host> hosts,
                                    std::span<const RankLocation> old_ranks, SourceKinds kinds,
                                    std::optional<std::uint64_t> storage_iteration) {
    std::vector<StateSource> sources;
    if (kinds.hosts) {
        const std::vector<bool> has = hosts_with_state(parcels, hosts, old_ranks);
        for (std::uint32_t host = 0; host < hosts.size(); ++host) {
            if (has[host]) sources.push_back({host, hosts[host].iteration});
        }
    }
    if (kinds.storage) sources.push_back({from_storage, storage_iteration});
    return sources;
}

void require_one_iteration(std::span<const StateSource> sources, std::span<const Host> hosts) {
    const auto is_known = [](const StateSource& source) { return source.iteration.has_value(); };
    const auto first = std::ranges::find_if(sources, is_known);
    const auto other = std::find_if(first, sources.end(), [&](const StateSource& source) {
        return is_known(source) && source.iteration != first->iteration;
    });
    if (other == sources.end()) return;
    const std::string& host = hosts[first->host].name;
    if (other->host == from_storage)
        throw failure(
            "host '{}' holds iteration {} and shared storage iteration {}, and some state is on shared storage only: a "
            "change cannot mix iterations; restore iteration {} on all ranks",
            host, *first->iteration, *other->iteration, *other->iteration);
    throw failure(
        "host '{}' holds iteration {} and host '{}' iteration {}: a change cannot mix iterations; exclude hosts that "
        "hold another one (--lost)",
        host, *first->iteration, hosts[other->host].name, *other->iteration);
}

}  // namespace tpx
