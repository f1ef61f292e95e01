// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/box.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// Appends what is left of `box` without `hole`: at most two disjoint boxes per axis, none if `hole` contains `box`.
void subtract(const Box& box, const Box& hole, std::vector<Box>& rest);

/// Removes `hole` from every box of `rest`. `scratch` is overwritten; reusing it saves allocations.
void carve(std::vector<Box>& rest, const Box& hole, std::vector<Box>& scratch);

/// Whether `a` and `b`, of equal rank, share an element.
bool overlap(const Box& a, const Box& b);

/// A fixed set of boxes of equal rank that can be searched for those that overlap a given box. For grids and other
/// tilings, a search takes time proportional to the number of boxes found if the boxes are sorted; any order is
/// correct.
class BoxIndex {
public:
    explicit BoxIndex(std::vector<Box> boxes);

    const std::vector<Box>& boxes() const { return boxes_; }

    /// Sets `found` to the positions, ascending, of the boxes that share an element with `box`.
    void overlapping(const Box& box, std::vector<std::uint32_t>& found) const;

private:
    void descend(std::size_t level, std::size_t node, const Box& box, std::vector<std::uint32_t>& found) const;

    std::vector<Box> boxes_;
    // levels_[0][i] bounds boxes 8i to 8i+7, levels_[k][i] bounds nodes 8i to 8i+7 of levels_[k-1]; the last level has
    // at most 8 nodes.
    std::vector<std::vector<Box>> levels_;
};

/// The union of `boxes` as disjoint boxes, sorted.
std::vector<Box> disjoint(std::vector<Box> boxes);

/// The elements of `boxes` that are in no box of `holes`; the result is disjoint if `boxes` are.
std::vector<Box> difference(std::span<const Box> boxes, const BoxIndex& holes);

/// The number of elements in disjoint `boxes`.
Index volume(std::span<const Box> boxes);

}  // namespace tpx
