// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/box.hpp"

#include <vector>

namespace tpx {

/// The position of element `x` among the elements of `shape` in C order. Precondition: `x` is inside `shape`.
Index flat_position(const Shape& shape, const Tuple<Index>& x);

/// The first element of `box`.
Tuple<Index> first_of(const Box& box);

/// The boxes that tile the elements `range` of a tensor of `shape`, counted in C order: at most 2k-1 for k axes, in
/// that order. The elements of each box are contiguous. Precondition: 0 <= begin, end <= volume(shape).
std::vector<Box> boxes_of_range(const Shape& shape, Interval range);

}  // namespace tpx
