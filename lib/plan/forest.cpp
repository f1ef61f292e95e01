// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/forest.hpp"

#include <algorithm>

namespace tpx {

void Forest::carry(std::uint32_t node, std::uint32_t carrier) {
    carriers_[node] = carrier;
    if (node != carrier) parents_[node] = carrier;
}

void Forest::hang(std::uint32_t node, std::uint32_t parent) {
    if (parents_[node] != none) std::erase(children_[parents_[node]], node);
    parents_[node] = parent;
    if (parent != none) children_[parent].push_back(node);
    hung_.push_back(node);
}

// The child of `ancestor` that `node` is below, or none.
std::uint32_t Forest::child_above(std::uint32_t node, std::uint32_t ancestor) const {
    while (node != none && parents_[node] != ancestor) node = parents_[node];
    return node;
}

void Forest::pass(std::uint32_t from, std::uint32_t to, std::span<const std::uint32_t> roots) {
    const std::uint32_t above = child_above(to, from);
    const auto free = std::ranges::find_if(children_[from], [&](std::uint32_t child) { return child != above; });
    if (free != children_[from].end()) return hang(*free, to);
    // `to` is below the only child. That child takes the place of `from`, which goes below `to`; a root cannot go
    // there, but it can give its child to another root, and a child of that one goes there instead.
    if (const std::uint32_t carrier = carriers_[from]; carrier != none) {
        hang(above, parents_[carrier]);
        return hang(carrier, to);
    }
    const auto other =
        std::ranges::find_if(roots, [&](std::uint32_t root) { return root != from && !children_[root].empty(); });
    hang(children_[*other].back(), to);
    hang(above, *other);
}

}  // namespace tpx
