// SPDX-License-Identifier: Apache-2.0
#include "lib/change/parcel.hpp"

#include <algorithm>

namespace tpx {

std::uint32_t RankSets::add(std::span<const std::int32_t> ranks) {
    std::uint64_t hash = ranks.size();
    for (std::int32_t rank : ranks) hash = (hash ^ static_cast<std::uint32_t>(rank)) * 0x9E3779B97F4A7C15u;
    const auto [begin, end] = numbers_.equal_range(hash);
    for (auto known = begin; known != end; ++known) {
        if (std::ranges::equal((*this)[known->second], ranks)) return known->second;
    }
    const std::uint32_t number = size();
    ranks_.insert(ranks_.end(), ranks.begin(), ranks.end());
    begins_.push_back(ranks_.size());
    numbers_.emplace(hash, number);
    return number;
}

}  // namespace tpx
