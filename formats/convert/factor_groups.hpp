// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/box.hpp"
#include "lib/layout/parts.hpp"

#include <vector>

namespace tpx::formats {

/// A box of a tensor that has an axis for each factor (group, head, ...), seen with the axes of the model's tensor,
/// each of which is the product of some consecutive factors.
class FactorGroups {
public:
    /// `counts`: how many axes of `box` make up each axis; they add up to those of the box.
    FactorGroups(std::vector<int> counts, Box box);

    /// The size of the box on each axis.
    const Shape& sizes() const { return sizes_; }

    /// The first factor of an axis.
    int first_factor(int axis) const;

    /// The boxes, in factors, of the part of the box whose rows on `axis`, counted from the first, are in `rows`.
    std::vector<Box> boxes(int axis, Interval rows) const;

private:
    std::vector<int> counts_;
    Box box_;
    Shape sizes_;
    Part part_;  ///< the box in factors as a part of one with the model's axes
};

}  // namespace tpx::formats
