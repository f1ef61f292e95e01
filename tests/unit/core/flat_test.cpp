// SPDX-License-Identifier: Apache-2.0
#include "lib/core/flat.hpp"

#include <doctest/doctest.h>

#include <random>

namespace tpx {
namespace {

/// The flat positions of the elements of `box`, by counting.
void append_positions(const Shape& shape, const Box& box, std::vector<Index>& out) {
    for (Index at = 0; at < volume(shape); ++at) {
        Index rest = at;
        bool inside = true;
        for (int k = shape.size() - 1; k >= 0; --k) {
            inside = inside && box[k].contains({rest % shape[k], rest % shape[k] + 1});
            rest /= shape[k];
        }
        if (inside) out.push_back(at);
    }
}

}  // namespace

TEST_CASE("the boxes of a range contain its elements, in order, and are few") {
    std::mt19937 random{7};
    for (int round = 0; round < 300; ++round) {
        Shape shape;
        const int rank = static_cast<int>(random() % 5);
        for (int k = 0; k < rank; ++k) shape.push_back(1 + random() % 5);
        Interval range{static_cast<Index>(random() % (volume(shape) + 1)), 0};
        range.end = range.begin + static_cast<Index>(random() % (volume(shape) - range.begin + 1));
        const std::vector<Box> boxes = boxes_of_range(shape, range);
        std::vector<Index> found;
        for (const Box& box : boxes) {
            CHECK(flat_position(shape, first_of(box)) == range.begin + static_cast<Index>(found.size()));
            append_positions(shape, box, found);
        }
        std::vector<Index> wanted;
        for (Index at = range.begin; at < range.end; ++at) wanted.push_back(at);
        CHECK(found == wanted);
        CHECK(static_cast<int>(boxes.size()) <= std::max(1, 2 * rank - 1));
    }
}

TEST_CASE("a tensor without elements has no boxes, a scalar has one") {
    CHECK(boxes_of_range({3, 0, 2}, {0, 0}).empty());
    CHECK(boxes_of_range({}, {0, 1}).size() == 1);
    CHECK(boxes_of_range({}, {0, 0}).empty());
    CHECK(boxes_of_range({4, 6}, {6, 18}) == std::vector<Box>{{{1, 3}, {0, 6}}});
    CHECK(boxes_of_range({4, 6}, {5, 19}) == std::vector<Box>{{{0, 1}, {5, 6}}, {{1, 3}, {0, 6}}, {{3, 4}, {0, 1}}});
}

}  // namespace tpx
