// SPDX-License-Identifier: Apache-2.0
#include "lib/change/owner_sets.hpp"

namespace tpx {

std::uint32_t OwnerSets::number(const Owner& owner) {
    const auto stages = static_cast<std::size_t>(grid_.stage.size) + 1;  // and one for both ends
    const auto at_stage = static_cast<std::size_t>(owner.stage == Owner::both_ends ? grid_.stage.size : owner.stage);
    std::size_t choice = 0;
    std::size_t index = at_stage;
    std::size_t size = stages;
    const auto add = [&](int coordinate, int coordinates) {
        choice = choice * 2 + (coordinate >= 0 ? 1 : 0);
        if (coordinate < 0) return;
        index = index * static_cast<std::size_t>(coordinates) + static_cast<std::size_t>(coordinate);
        size *= static_cast<std::size_t>(coordinates);
    };
    add(owner.block, grid_.block.size);
    add(owner.part, grid_.part.size);
    add(owner.shard, grid_.shards(sharing_));
    std::vector<std::uint32_t>& numbers = numbers_[choice];
    if (numbers.empty()) numbers.assign(size, unknown);
    if (numbers[index] == unknown) numbers[index] = sets_.add(grid_.ranks_of(owner, sharing_));
    return numbers[index];
}

}  // namespace tpx
