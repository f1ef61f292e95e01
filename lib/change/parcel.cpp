// SPDX-License-Identifier: Apache-2.0
#include "lib/change/parcel.hpp"

#include <algorithm>

namespace tpx {

// The slot of the set `ranks`, or the free slot where it belongs.
std::uint32_t& RankSets::slot(std::uint64_t hash, std::span<const std::int32_t> ranks) {
    std::size_t at = (hash ^ hash >> 32) & (slots_.size() - 1);
    while (slots_[at] != 0) {
        const std::uint32_t number = slots_[at] - 1;
        if (hashes_[number] == hash && std::ranges::equal((*this)[number], ranks)) break;
        at = (at + 1) & (slots_.size() - 1);
    }
    return slots_[at];
}

// Doubles the slots, so that at least half of them stay free.
void RankSets::grow() {
    slots_.assign(std::max<std::size_t>(16, slots_.size() * 2), 0);
    for (std::uint32_t number = 0; number < size(); ++number) {
        std::size_t at = (hashes_[number] ^ hashes_[number] >> 32) & (slots_.size() - 1);
        while (slots_[at] != 0) at = (at + 1) & (slots_.size() - 1);
        slots_[at] = number + 1;
    }
}

std::uint32_t RankSets::add(std::span<const std::int32_t> ranks) {
    std::uint64_t hash = ranks.size();
    for (std::int32_t rank : ranks) hash = (hash ^ static_cast<std::uint32_t>(rank)) * 0x9E3779B97F4A7C15u;
    if (2 * hashes_.size() >= slots_.size()) grow();
    std::uint32_t& known = slot(hash, ranks);
    if (known != 0) return known - 1;
    const std::uint32_t number = size();
    known = number + 1;
    hashes_.push_back(hash);
    ranks_.insert(ranks_.end(), ranks.begin(), ranks.end());
    begins_.push_back(ranks_.size());
    return number;
}

}  // namespace tpx
