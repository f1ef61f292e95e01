// SPDX-License-Identifier: Apache-2.0
#include "lib/change/cut_blocks.hpp"

#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"

#include <algorithm>

namespace tpx {
namespace {

// The number of hosts at the beginning of `order` that get ranks, see cut_blocks(); `order` ends with the spare hosts.
// 0: the ranks do not fit even on all hosts.
std::size_t hosts_in_use(std::span<const Host> hosts, std::span<const std::uint32_t> order, int ranks, int group) {
    const auto enough_for = [&](int group_size) -> std::size_t {
        std::int64_t room = 0;
        for (std::size_t i = 0; i < order.size(); ++i) {
            if (hosts[order[i]].spare && room >= ranks) return i;
            room += free_devices(hosts[order[i]]) / group_size * group_size;
        }
        return room >= ranks ? order.size() : 0;
    };
    const std::size_t whole = enough_for(group);
    return whole > 0 ? whole : enough_for(1);
}

}  // namespace

std::vector<std::uint32_t> hosts_for_ranks(std::span<const Host> hosts) {
    std::vector<std::uint32_t> order;
    for (std::uint32_t h = 0; h < hosts.size(); ++h) {
        if (free_devices(hosts[h]) > 0) order.push_back(h);
    }
    const auto spares = std::ranges::stable_partition(order, [&](std::uint32_t h) { return !hosts[h].spare; });
    std::ranges::stable_sort(spares, std::ranges::greater{}, [&](std::uint32_t h) { return free_devices(hosts[h]); });
    return order;
}

std::vector<Block> cut_blocks(std::span<const Host> hosts, int ranks, int group) {
    std::vector<std::uint32_t> order = hosts_for_ranks(hosts);
    const auto places = [&] {
        std::int64_t sum = 0;
        for (std::uint32_t host : order) sum += free_devices(hosts[host]);
        return sum;
    };
    const std::size_t used = hosts_in_use(hosts, order, ranks, group);
    if (used == 0)
        throw Error{Exit::usage, "{} do not fit on {} with {} in all",
                    counted(static_cast<std::uint64_t>(ranks), "rank"), counted(order.size(), "host"),
                    counted(static_cast<std::uint64_t>(places()), "GPU")};
    order.resize(used);
    int most = 0;
    for (std::uint32_t host : order) most = std::max(most, free_devices(hosts[host]));
    if (group > most) group = 1;
    std::vector<Block> blocks;
    std::int64_t idle = places() - ranks;  // devices that no rank needs
    std::int32_t begin = 0;
    for (std::uint32_t host : order) {
        std::int32_t end = std::min(begin + free_devices(hosts[host]), ranks);
        const std::int32_t part = end % group;  // ranks of a group that continues on the next host
        if (part <= idle && end - part >= begin) {
            end -= part;
            idle -= part;
        }
        if (begin != end) blocks.push_back({begin, end, host, 0});
        begin = end;
    }
    return blocks;
}

HostChoice hosts_for_blocks(std::span<const Host> hosts, std::span<const Block> blocks) {
    const auto is_spare = [&](std::uint32_t host) { return hosts[host].spare; };
    HostChoice choice{hosts_for_ranks(hosts), {}};
    if (std::ranges::none_of(blocks, is_spare, &Block::host)) {
        std::erase_if(choice.hosts, is_spare);
        return choice;
    }
    for (std::uint32_t host : choice.hosts)
        choice.wanted.push_back(!is_spare(host) && std::ranges::find(blocks, host, &Block::host) != blocks.end());
    return choice;
}

std::vector<std::int32_t> split_groups(std::span<const Block> blocks, int group) {
    std::vector<std::int32_t> split;
    for (const Block& block : blocks) {
        const std::int32_t last = block.end / group;
        if (block.end % group != 0 && (split.empty() || split.back() != last)) split.push_back(last);
    }
    return split;
}

}  // namespace tpx
