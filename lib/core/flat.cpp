// SPDX-License-Identifier: Apache-2.0
#include "lib/core/flat.hpp"

#include <cassert>

namespace tpx {
namespace {

/// Adds the boxes of `range`, which counts the elements of one slice: in `box`, each axis before `axis` is a single
/// index. `row` is the number of elements for each index of `axis`.
void add_boxes(const Shape& shape, int axis, Box box, Interval range, Index row, std::vector<Box>& out) {
    if (range.empty()) return;
    if (axis == shape.size()) return out.push_back(box);
    const auto descend = [&](Index index, Interval inner) {
        box[axis] = {index, index + 1};
        const Index next = axis + 1 < shape.size() ? row / shape[axis + 1] : 1;
        add_boxes(shape, axis + 1, box, inner, next, out);
    };
    const Index first = range.begin / row;
    const Index last = range.end / row;  // the row in which the range ends; the next one if it ends with a row
    if (first == last) return descend(first, {range.begin - first * row, range.end - first * row});
    const bool cut = range.begin % row != 0;
    if (cut) descend(first, {range.begin - first * row, row});
    if (const Interval rows{cut ? first + 1 : first, last}; !rows.empty()) {
        out.push_back(box);
        out.back()[axis] = rows;
    }
    descend(last, {0, range.end - last * row});
}

}  // namespace

Index flat_position(const Shape& shape, const Tuple<Index>& x) {
    Index position = 0;
    for (int k = 0; k < shape.size(); ++k) position = position * shape[k] + x[k];
    return position;
}

Tuple<Index> first_of(const Box& box) {
    Tuple<Index> first;
    for (const Interval side : box) first.push_back(side.begin);
    return first;
}

std::vector<Box> boxes_of_range(const Shape& shape, Interval range) {
    assert(0 <= range.begin && range.end <= volume(shape));
    std::vector<Box> boxes;
    const Index all = volume(shape);
    if (all == 0) return boxes;
    add_boxes(shape, 0, whole(shape), range, shape.empty() ? 1 : all / shape[0], boxes);
    return boxes;
}

}  // namespace tpx
