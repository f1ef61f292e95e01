// SPDX-License-Identifier: Apache-2.0
#include "lib/change/layout_costs.hpp"

#include "lib/change/group_parcels.hpp"
#include "lib/change/held_bytes.hpp"
#include "lib/change/rank_locations.hpp"

#include <algorithm>
#include <numeric>

// The bytes that a block needs and its host does not hold cross into the host. For the layers of each old stage, a host
// saves a block at most the bytes that it holds, and at most the bytes that the block needs. The smaller of these gives
// a lower bound without comparing elements, which rules out most layouts.

namespace tpx {
namespace {

using Numbers = std::vector<std::int32_t>;

// For each new rank, number(block, position) of its block.
template <class Number>
Numbers by_block(std::span<const Block> blocks, Number number) {
    Numbers result;
    for (std::size_t b = 0; b < blocks.size(); ++b)
        result.resize(static_cast<std::size_t>(blocks[b].end), number(blocks[b], static_cast<std::int32_t>(b)));
    return result;
}

}  // namespace

LayoutCosts::LayoutCosts(const ModelState& model, const Layout& from, std::span<const Host> hosts,
                         std::span<const RankLocation> old_ranks)
    : model_{model}, from_{from}, hosts_{hosts}, old_ranks_{old_ranks} {
    const Numbers on = old_rank_hosts(hosts, old_ranks, from.ranks());
    Numbers first(hosts.size(), -1);
    for (std::int32_t rank = 0; rank < std::ssize(on); ++rank) {
        if (on[rank] >= 0 && first[on[rank]] < 0) first[on[rank]] = rank;
        first_on_host_.push_back(on[rank] < 0 ? -1 : first[on[rank]]);
    }
    held_ = held_bytes(model, from, from, on, hosts.size()).groups;
    std::ranges::sort(held_);
    held_.erase(std::unique(held_.begin(), held_.end()), held_.end());
}

// The most bytes that any host can hold already of the `needed` bytes of each old stage.
std::uint64_t LayoutCosts::kept_at_most(std::span<const std::uint64_t> needed) const {
    std::uint64_t most = 0;
    for (const std::vector<std::uint64_t>& held : held_) {
        std::uint64_t kept = 0;
        for (std::size_t stage = 0; stage < held.size(); ++stage) kept += std::min(held[stage], needed[stage]);
        most = std::max(most, kept);
    }
    return most;
}

LayoutCosts::Bounds LayoutCosts::bounds(const Layout& to) const {
    const std::vector<Block> blocks = cut_blocks(hosts_, to.ranks(), tp_span(to));
    const Numbers block_of = by_block(blocks, [](const Block&, std::int32_t number) { return number; });
    HeldBytes held = held_bytes(model_, to, from_, block_of, blocks.size());
    Bounds bounds{std::ranges::max(held.ranks), 0};
    std::ranges::sort(held.groups);  // puts equal blocks, which are most, next to each other
    for (auto block = held.groups.begin(); block != held.groups.end();) {
        const auto next = std::find_if(block, held.groups.end(), [&](const auto& other) { return other != *block; });
        const auto needed = std::accumulate(block->begin(), block->end(), std::uint64_t{0});
        bounds.least_crossing += static_cast<std::uint64_t>(next - block) * (needed - kept_at_most(*block));
        block = next;
    }
    return bounds;
}

Parcels LayoutCosts::amounts(const Layout& to) const {
    const std::vector<Block> blocks = cut_blocks(hosts_, to.ranks(), tp_span(to));
    const Numbers first_of_block = by_block(blocks, [](const Block& block, std::int32_t) { return block.begin; });
    return group_parcels(model_, from_, to, {first_on_host_, first_of_block});
}

std::uint64_t LayoutCosts::least_crossing(const Parcels& amounts) const {
    constexpr std::size_t most_pairs = 1 << 16;  // amounts with more pairs of block and host are not counted
    std::vector<std::vector<const Parcel*>> of_block(static_cast<std::size_t>(amounts.new_ranks));
    for (const Parcel& parcel : amounts.parcels) {
        const auto needers = amounts.needers[parcel.needers];
        if (needers.size() * amounts.holders[parcel.holders].size() > most_pairs) continue;
        for (std::int32_t block : needers) of_block[block].push_back(&parcel);
    }
    std::vector<std::uint64_t> there(static_cast<std::size_t>(amounts.old_ranks),
                                     0);  // of a block's needs, bytes on each host
    std::uint64_t sum = 0;
    for (const std::vector<const Parcel*>& parcels : of_block) {
        std::uint64_t needed = 0;
        std::uint64_t most = 0;
        for (const Parcel* parcel : parcels) {
            needed += parcel->bytes;
            for (std::int32_t host : amounts.holders[parcel->holders])
                most = std::max(most, there[host] += parcel->bytes);
        }
        for (const Parcel* parcel : parcels) {
            for (std::int32_t host : amounts.holders[parcel->holders]) there[host] = 0;
        }
        sum += needed - most;
    }
    return sum;
}

std::uint64_t LayoutCosts::crossing(const Layout& to, const Parcels& amounts, bool pinned) const {
    return place(amounts, hosts_, old_ranks_, pinned, tp_span(to)).crossing;
}

}  // namespace tpx
