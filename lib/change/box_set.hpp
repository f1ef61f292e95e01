// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/box.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// Appends what is left of `box` without `hole`: at most two disjoint boxes an axis, none when `hole` contains `box`.
void subtract(const Box& box, const Box& hole, std::vector<Box>& rest);

/// Takes `hole` out of every box of `rest`; `scratch` saves allocations.
void carve(std::vector<Box>& rest, const Box& hole, std::vector<Box>& scratch);

/// Whether `a` and `b`, of equal rank, share an element.
bool overlap(const Box& a, const Box& b);

/// A fixed set of boxes of equal rank that answers which of them overlap a given one. The answer takes time
/// proportional to its size for grids and other tilings when the boxes are sorted; it is right in any order.
class BoxIndex {
public:
    explicit BoxIndex(std::vector<Box> boxes);

    const std::vector<Box>& boxes() const { return boxes_; }

    /// Replaces `found` by the positions, ascending, of the boxes that share an element with `box`.
    void overlapping(const Box& box, std::vector<std::uint32_t>& found) const;

private:
    void descend(std::size_t level, std::size_t node, const Box& box, std::vector<std::uint32_t>& found) const;

    std::vector<Box> boxes_;
    // levels_[0][i] bounds the boxes from 8i to 8i+7, levels_[k][i] the same nodes of levels_[k-1]; the last has at
    // most 8.
    std::vector<std::vector<Box>> levels_;
};

/// The union of `boxes` as disjoint boxes, sorted.
std::vector<Box> disjoint(std::vector<Box> boxes);

/// The elements of `boxes` that no box of `holes` has; disjoint when `boxes` are.
std::vector<Box> difference(std::span<const Box> boxes, const BoxIndex& holes);

/// How many elements disjoint `boxes` have.
Index volume(std::span<const Box> boxes);

}  // namespace tpx
