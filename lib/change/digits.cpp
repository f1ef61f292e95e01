// SPDX-License-Identifier: Apache-2.0
#include "lib/change/digits.hpp"

#include <algorithm>
#include <iterator>

namespace tpx {

Digits::Digits(const Grid& grid, Sharing sharing, RankSets& sets) : grid_{grid}, sharing_{sharing}, sets_{sets} {}

void Digits::fill(Buckets& buckets, bool by_part, bool by_shard) const {
    buckets.parts = by_part ? grid_.parts : 1;
    buckets.shards = by_shard ? shards(grid_, sharing_) : 1;
    const std::size_t a_stage = std::size_t(grid_.blocks) * buckets.parts * buckets.shards;
    const auto tuple = [&](const GridPlace& at) {
        const std::size_t part = std::size_t(at.stage) * grid_.blocks + at.block;
        const std::size_t shard = by_shard ? shard_at(grid_, at, sharing_) : 0;
        return (part * buckets.parts + (by_part ? at.part : 0)) * buckets.shards + shard;
    };
    buckets.numbers.assign((grid_.stages + 1) * a_stage, no_set);
    buckets.begins.assign(grid_.stages * a_stage + 1, 0);
    for (const GridPlace& at : grid_.places) ++buckets.begins[tuple(at) + 1];
    for (std::size_t i = 1; i < buckets.begins.size(); ++i) buckets.begins[i] += buckets.begins[i - 1];
    buckets.ranks.resize(grid_.places.size());
    std::vector<std::uint32_t> next{buckets.begins.begin(), buckets.begins.end() - 1};
    for (std::size_t rank = 0; rank < grid_.places.size(); ++rank)
        buckets.ranks[next[tuple(grid_.places[rank])]++] = static_cast<std::int32_t>(rank);
}

std::uint32_t Digits::add(const Buckets& buckets, std::size_t tuple, std::size_t a_stage, bool both) {
    const auto ranks = [&](std::size_t t) {
        return std::span{buckets.ranks}.subspan(buckets.begins[t], buckets.begins[t + 1] - buckets.begins[t]);
    };
    if (!both) return sets_.add(ranks(tuple));
    const auto first = ranks(tuple % a_stage);
    const auto last = ranks(tuple % a_stage + (grid_.stages - 1) * a_stage);
    std::vector<std::int32_t> ends;
    std::ranges::set_union(first, last, std::back_inserter(ends));
    return sets_.add(ends);
}

std::uint32_t Digits::set(int stage, int block, int part, int shard) {
    Buckets& buckets = buckets_[(part >= 0 ? 1 : 0) + (shard >= 0 ? 2 : 0)];
    if (buckets.numbers.empty()) fill(buckets, part >= 0, shard >= 0);
    const std::size_t a_stage = std::size_t(grid_.blocks) * buckets.parts * buckets.shards;
    const std::size_t tuple = stage * a_stage +
                              (std::size_t(block) * buckets.parts + std::max(part, 0)) * buckets.shards +
                              std::max(shard, 0);
    std::uint32_t& number = buckets.numbers[tuple];
    if (number == no_set) number = add(buckets, tuple, a_stage, stage == both_ends());
    return number;
}

}  // namespace tpx
