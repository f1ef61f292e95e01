// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/box.hpp"

#include <vector>

namespace tpx::formats::megatron {

/// A box, and the flat position of its first element.
struct FlatBox {
    Box box;
    Index begin = 0;
};

/// The flat positions from the first to the last element of `box`, which lie at `begin` and the multiples of `strides`
/// behind it.
Interval flat_range(const Box& box, const Strides& strides, Index begin);

/// What of `box`, whose elements lie at `begin` and the multiples of `strides` behind it, is at flat positions in
/// `range`: at most two boxes an axis and one, disjoint. Axes may follow each other in any order, but none may reach
/// into the next element of a slower one; strides of axes of one element do not count.
std::vector<FlatBox> cut_flat(const Box& box, const Strides& strides, Index begin, Interval range);

}  // namespace tpx::formats::megatron
