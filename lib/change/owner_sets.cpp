// SPDX-License-Identifier: Apache-2.0
#include "lib/change/owner_sets.hpp"

namespace tpx {

std::size_t OwnerSets::Hash::operator()(const Owner& owner) const {
    std::uint64_t state = 0;
    for (int coordinate : {owner.stage, owner.block, owner.part, owner.shard}) {
        state = (state ^ static_cast<std::uint32_t>(coordinate)) * 0x9e3779b97f4a7c15;
        state ^= state >> 29;
    }
    return state;
}

std::uint32_t OwnerSets::number(const Owner& owner) {
    const auto known = numbers_.find(owner);
    if (known != numbers_.end()) return known->second;
    const std::uint32_t number = sets_.add(grid_.ranks_of(owner, sharing_));
    numbers_.emplace(owner, number);
    return number;
}

}  // namespace tpx
