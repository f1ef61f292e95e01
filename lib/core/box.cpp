// SPDX-License-Identifier: Apache-2.0
#include "lib/core/box.hpp"

#include <fmt/format.h>

namespace tpx {

Box whole(const Shape& shape) {
    Box box;
    for (Index size : shape) box.push_back({0, size});
    return box;
}

Shape sizes(const Box& box) {
    Shape shape;
    for (Interval side : box) shape.push_back(side.size());
    return shape;
}

Index volume(const Box& box) {
    Index product = 1;
    for (Interval side : box) product *= side.size();
    return product;
}

Index volume(const Shape& shape) {
    Index product = 1;
    for (Index size : shape) product *= size;
    return product;
}

Index checked_volume(const Shape& shape) {
    Index product = 1;
    for (Index size : shape) {
        if (size < 0 || __builtin_mul_overflow(product, size, &product)) return -1;
    }
    return product;
}

Box intersect(const Box& a, const Box& b) {
    assert(a.size() == b.size());
    Box shared;
    for (int k = 0; k < a.size(); ++k) shared.push_back(intersect(a[k], b[k]));
    return shared;
}

bool empty(const Box& box) {
    return std::any_of(box.begin(), box.end(), [](Interval side) { return side.empty(); });
}

bool contains(const Box& outer, const Box& inner) {
    assert(outer.size() == inner.size());
    for (int k = 0; k < outer.size(); ++k) {
        if (!outer[k].contains(inner[k])) return false;
    }
    return true;
}

Strides row_major(const Shape& shape) {
    Strides strides(shape.size());
    Index step = 1;
    for (int k = shape.size() - 1; k >= 0; --k) {
        strides[k] = step;
        step *= std::max<Index>(shape[k], 1);
    }
    return strides;
}

bool is_row_major(const Shape& shape, const Strides& strides) {
    const Strides expected = row_major(shape);
    for (int k = 0; k < shape.size(); ++k)
        if (shape[k] > 1 && strides[k] != expected[k]) return false;
    return true;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", ")); }

std::string to_string(const Box& box) {
    std::string text = "[";
    for (int k = 0; k < box.size(); ++k) text += fmt::format("{}{}:{}", k ? ", " : "", box[k].begin, box[k].end);
    return text + "]";
}

}  // namespace tpx
