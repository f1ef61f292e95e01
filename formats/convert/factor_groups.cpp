// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/factor_groups.hpp"

#include <numeric>

namespace tpx::formats {

FactorGroups::FactorGroups(std::vector<int> counts, Box box) : counts_{std::move(counts)}, box_{box} {
    part_.shape = tpx::sizes(box);
    part_.axis = Tuple<int>(box.size());
    part_.step = Tuple<Index>(box.size());
    int factor = 0;
    for (int axis = 0; axis < std::ssize(counts_); ++axis) {
        Index size = 1;
        for (int k = factor + counts_[static_cast<std::size_t>(axis)]; k-- > factor;) {
            part_.axis[k] = axis;
            part_.step[k] = size;
            size *= part_.shape[k];
        }
        factor += counts_[static_cast<std::size_t>(axis)];
        sizes_.push_back(size);
        part_.offset.push_back(0);
    }
}

int FactorGroups::first_factor(int axis) const { return std::accumulate(counts_.begin(), counts_.begin() + axis, 0); }

std::vector<Box> FactorGroups::boxes(int axis, Interval rows) const {
    Box wanted = whole(sizes_);
    wanted[axis] = rows;
    std::vector<Piece> pieces;
    cut_out(part_, {.box = wanted, .strides = row_major(tpx::sizes(wanted))}, 0, 1, pieces);
    std::vector<Box> found;
    for (const Piece& piece : pieces) {
        found.push_back(piece.box);
        for (int k = 0; k < box_.size(); ++k) found.back()[k] = shift(found.back()[k], box_[k].begin);
    }
    return found;
}

}  // namespace tpx::formats
