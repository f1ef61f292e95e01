// SPDX-License-Identifier: Apache-2.0
#include "lib/check/expected_blocks.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

namespace tpx {

namespace {

// `devices` without the spare hosts at the end that are not needed.
std::span<const std::uint32_t> needed_hosts(std::span<const std::uint32_t> devices, std::size_t spares,
                                            std::uint64_t ranks, std::uint64_t group) {
    std::uint64_t whole = 0;
    for (std::uint32_t count : devices) whole += count / group * group;
    const std::uint64_t unit = whole >= ranks ? group : 1;
    std::uint64_t room = 0;
    for (std::uint32_t count : devices) room += count / unit * unit;
    for (; spares > 0; --spares) {
        room -= devices.back() / unit * unit;
        if (room < ranks) break;
        devices = devices.first(devices.size() - 1);
    }
    return devices;
}

}  // namespace

std::vector<std::uint32_t> hosts_in_order(std::span<const std::uint32_t> devices,
                                          std::span<const std::uint32_t> spare) {
    std::vector<std::uint32_t> order;
    std::map<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> spares;  // by the number of their devices
    for (std::uint32_t host = 0; host < devices.size(); ++host) {
        if (devices[host] > 0) (spare[host] == 0 ? order : spares[devices[host]]).push_back(host);
    }
    for (const auto& [count, hosts] : spares) order.insert(order.end(), hosts.begin(), hosts.end());
    return order;
}

std::vector<std::uint64_t> expected_blocks(std::span<const std::uint32_t> devices, std::size_t spares,
                                           std::uint64_t ranks, std::uint64_t group) {
    std::vector<std::uint64_t> sizes;
    const std::span<const std::uint32_t> used = needed_hosts(devices, spares, ranks, group);
    std::uint64_t behind = std::accumulate(used.begin(), used.end(), std::uint64_t{0});
    if (behind < ranks) throw failure("blocks: {} ranks for {} devices", ranks, behind);
    const bool fits = std::ranges::any_of(used, [&](std::uint32_t count) { return count >= group; });
    std::uint64_t placed = 0;
    for (std::uint32_t count : used) {
        behind -= count;
        const std::uint64_t all = std::min(placed + count, ranks);
        // The last boundary between groups, if the following hosts can take all ranks after it.
        const std::uint64_t whole = fits ? all / group * group : all;
        const bool is_enough = whole >= placed && ranks - whole <= behind;
        sizes.push_back((is_enough ? whole : all) - placed);
        placed += sizes.back();
    }
    sizes.resize(devices.size(), 0);
    return sizes;
}

}  // namespace tpx
