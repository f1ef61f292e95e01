// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/box.hpp"
#include "lib/layout/parts.hpp"

#include <vector>

namespace tpx::formats {

/// Views a box of a factored tensor, which has one axis for each factor (group, head, ...), with the axes of the
/// model's tensor, each of which combines some consecutive factors.
class FactorGroups {
public:
    /// `counts`: how many axes of `box` each model axis combines; their sum is the number of axes of `box`.
    FactorGroups(std::vector<int> counts, Box box);

    /// The size of the box on each model axis.
    const Shape& sizes() const { return sizes_; }

    /// The number of the first factor of a model axis.
    int first_factor(int axis) const;

    /// The part of the box with `rows` on model axis `axis`, relative to the box, as boxes of the factored tensor.
    std::vector<Box> boxes(int axis, Interval rows) const;

private:
    std::vector<int> counts_;
    Box box_;
    Shape sizes_;
    Part part_;  ///< the factored box as a part of a tensor with the model's axes
};

}  // namespace tpx::formats
