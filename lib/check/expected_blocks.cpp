// SPDX-License-Identifier: Apache-2.0
#include "lib/check/expected_blocks.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <numeric>

namespace tpx {

std::vector<std::uint64_t> expected_blocks(std::span<const std::uint32_t> devices, std::uint64_t ranks,
                                           std::uint64_t group) {
    std::uint64_t behind = std::accumulate(devices.begin(), devices.end(), std::uint64_t{0});
    if (behind < ranks) throw failure("blocks: {} ranks for {} devices", ranks, behind);
    const bool fits = std::ranges::any_of(devices, [&](std::uint32_t count) { return count >= group; });
    std::vector<std::uint64_t> sizes;
    std::uint64_t placed = 0;
    for (std::uint32_t count : devices) {
        behind -= count;
        const std::uint64_t all = std::min(placed + count, ranks);
        // The last place where a group ends, if the hosts behind can take what is left from there.
        const std::uint64_t whole = fits ? all / group * group : all;
        const bool is_enough = whole >= placed && ranks - whole <= behind;
        sizes.push_back((is_enough ? whole : all) - placed);
        placed += sizes.back();
    }
    return sizes;
}

}  // namespace tpx
