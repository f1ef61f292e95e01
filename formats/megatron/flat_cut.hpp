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

/// The flat positions from the first to the last element of `box`. The first element is at `begin`, the others are at
/// multiples of `strides` after it.
Interval flat_range(const Box& box, const Strides& strides, Index begin);

/// The part of `box` at flat positions in `range`, as disjoint boxes: at most two per axis, plus one. The first element
/// of `box` is at `begin`, the others are at multiples of `strides` after it. Axes may have any order, but none may
/// extend into the next element of a slower axis; strides of axes with one element are ignored.
std::vector<FlatBox> cut_flat(const Box& box, const Strides& strides, Index begin, Interval range);

}  // namespace tpx::formats::megatron
