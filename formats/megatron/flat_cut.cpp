// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/flat_cut.hpp"

#include <algorithm>

namespace tpx::formats::megatron {
namespace {

class Cutter {
public:
    Cutter(const Box& box, const Strides& strides, Interval range, std::vector<FlatBox>& out)
        : strides_{strides}, range_{range}, out_{out} {
        for (int axis = 0; axis < box.size(); ++axis) {
            if (box[axis].size() > 1) axes_.push_back(axis);
        }
        std::sort(axes_.begin(), axes_.end(), [&](int a, int b) { return strides[a] > strides[b]; });
    }

    /// Cuts `box`, in which each of the first `at` axes of axes_ has one element.
    void cut(Box box, Index begin, int at) {
        const Index end = begin + reach(box, at);
        if (end <= range_.begin || begin >= range_.end) return;
        if (begin >= range_.begin && end <= range_.end) return out_.push_back({box, begin});
        const int axis = axes_[at];
        const Index step = strides_[axis];
        const Index inner = reach(box, at + 1);
        const Interval side = box[axis];
        const auto slice = [&](Interval some, int next) {
            if (some.empty()) return;
            Box part = box;
            part[axis] = some;
            const Index first = begin + (some.begin - side.begin) * step;
            next > at ? cut(part, first, next) : out_.push_back({part, first});
        };
        // The slices inside the range are one box; the slice at each end may have to be cut.
        const Index gap = range_.begin - begin - inner;
        Index first = gap < 0 ? side.begin : side.begin + gap / step + 1;
        const Index last = std::min(side.end, side.begin + (range_.end - begin + step - 1) / step);
        const auto inside = [&](Index index) {
            const Index at_index = begin + (index - side.begin) * step;
            return at_index >= range_.begin && at_index + inner <= range_.end;
        };
        if (first >= last) return;
        if (!inside(first)) {
            slice({first, first + 1}, at + 1);
            ++first;
        }
        const bool tail = first < last && !inside(last - 1);
        slice({first, tail ? last - 1 : last}, at);
        if (tail) slice({last - 1, last}, at + 1);
    }

private:
    /// The number of positions that the axes of axes_ from number `at` on span.
    Index reach(const Box& box, int at) const {
        Index span = 1;
        for (int k = at; k < axes_.size(); ++k) span += (box[axes_[k]].size() - 1) * strides_[axes_[k]];
        return span;
    }

    const Strides& strides_;
    Interval range_;
    std::vector<FlatBox>& out_;
    Tuple<int> axes_;  // those with more than one element, the slowest first
};

}  // namespace

Interval flat_range(const Box& box, const Strides& strides, Index begin) {
    Index end = begin + 1;
    for (int axis = 0; axis < box.size(); ++axis) end += (box[axis].size() - 1) * strides[axis];
    return {begin, end};
}

std::vector<FlatBox> cut_flat(const Box& box, const Strides& strides, Index begin, Interval range) {
    std::vector<FlatBox> out;
    if (!empty(box) && !range.empty()) Cutter{box, strides, range, out}.cut(box, begin, 0);
    return out;
}

}  // namespace tpx::formats::megatron
