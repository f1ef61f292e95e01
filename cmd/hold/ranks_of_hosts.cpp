// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/ranks_of_hosts.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <cstddef>
#include <map>

namespace tpx::cli {
namespace {

std::vector<std::vector<int>> blocks_of_ranks(int hosts, int ranks) {
    std::vector<std::vector<int>> blocks(static_cast<std::size_t>(hosts));
    int next = 0;
    for (int host = 0; host < hosts; ++host) {
        const int end = next + ranks / hosts + (host < ranks % hosts ? 1 : 0);
        while (next < end) blocks[static_cast<std::size_t>(host)].push_back(next++);
    }
    return blocks;
}

void check_on_one_host(std::span<const std::optional<std::vector<int>>> given) {
    std::map<int, std::size_t> host_of_rank;
    for (std::size_t host = 0; host < given.size(); ++host)
        for (const int rank : *given[host])
            if (const auto [other, is_new] = host_of_rank.emplace(rank, host); !is_new)
                throw usage_error("--ranks: processes {} and {} both name rank {}; each rank is held on one host",
                                  other->second, host, rank);
}

}  // namespace

std::vector<std::vector<int>> ranks_of_hosts(std::span<const std::optional<std::vector<int>>> given, int ranks) {
    const auto names_none = [](const auto& one) { return !one; };
    const auto without = std::ranges::find_if(given, names_none);
    if (std::ranges::all_of(given, names_none)) return blocks_of_ranks(static_cast<int>(given.size()), ranks);
    if (without != given.end())
        throw usage_error("--ranks: process {} has none; pass --ranks on every host, or on none",
                          without - given.begin());
    check_on_one_host(given);
    std::vector<std::vector<int>> chosen;
    for (const auto& one : given) chosen.push_back(*one);
    return chosen;
}

}  // namespace tpx::cli
