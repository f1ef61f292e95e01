// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/fair_shares.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace tpx {
namespace {

int power_below(double share) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(std::max(1.0, share)))); }

// Halves shares, those of low priority first, until they fit into `free`; none falls below its least.
void shrink(std::vector<int>& shares, std::span<const FairClaim> claims, const std::vector<std::size_t>& rising,
            int free) {
    long sum = 0;
    for (const std::size_t i : rising) sum += shares[i];
    for (auto next = rising.begin(); sum > free && next != rising.end();) {
        int& share = shares[*next];
        const int less = std::max(claims[*next].least, share / 2);
        if (less == share) {
            ++next;
            continue;
        }
        sum -= share - less;
        share = less;
    }
}

}  // namespace

std::vector<int> weighted_fair_shares(std::span<const FairClaim> claims, int gpus) {
    std::vector<int> shares(claims.size());
    std::vector<std::size_t> open(claims.size());  // claims that are not settled, by rising priority
    std::iota(open.begin(), open.end(), 0);
    std::ranges::stable_sort(open, {}, [&](std::size_t i) { return claims[i].priority; });
    const std::vector<std::size_t> rising = open;
    int free = gpus;
    while (!open.empty()) {
        double weights = 0;
        for (const std::size_t i : open) weights += claims[i].priority;
        for (const std::size_t i : open)
            shares[i] = std::max(claims[i].least, power_below(free * claims[i].priority / weights));
        shrink(shares, claims, open, free);
        const auto settled =
            std::ranges::stable_partition(open, [&](std::size_t i) { return shares[i] < claims[i].demand; });
        if (settled.empty()) break;
        for (const std::size_t i : settled) free -= shares[i] = claims[i].demand;
        open.erase(settled.begin(), settled.end());
    }
    for (const std::size_t i : open) free -= shares[i];
    std::vector<std::size_t> falling = rising;
    std::ranges::stable_sort(falling, std::greater{}, [&](std::size_t i) { return claims[i].priority; });
    for (const std::size_t i : falling)
        for (; shares[i] <= free && 2 * shares[i] <= claims[i].demand; shares[i] *= 2) free -= shares[i];
    return shares;
}

}  // namespace tpx
