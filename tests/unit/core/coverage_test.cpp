// SPDX-License-Identifier: Apache-2.0
#include "lib/core/coverage.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>

namespace tpx {
namespace {

Index between(std::mt19937& random, Index low, Index high) {
    return std::uniform_int_distribution<Index>{low, high}(random);
}

void cut(std::mt19937& random, const Box& box, int depth, std::vector<Box>& out) {
    const int axis = box.empty() ? 0 : int(between(random, 0, box.size() - 1));
    if (box.empty() || depth == 0 || box[axis].size() < 2) return out.push_back(box);
    Box low = box;
    Box high = box;
    low[axis].end = high[axis].begin = between(random, box[axis].begin + 1, box[axis].end - 1);
    cut(random, low, depth - 1, out);
    cut(random, high, depth - 1, out);
}

Catalogue catalogue_of(const Shape& shape, std::vector<Box> boxes) {
    std::sort(boxes.begin(), boxes.end());
    Catalogue catalogue;
    catalogue.tensors.push_back({"w", DType::f32, shape});
    for (const Box& box : boxes) catalogue.pieces.push_back({0, 0, 0, box, {}, -1});
    return catalogue;
}

Shape random_shape(std::mt19937& random) {
    Shape shape;
    for (Index axes = between(random, 0, 4); axes > 0; --axes) shape.push_back(between(random, 1, 7));
    return shape;
}

template <class Visit>
void each_element(const Box& box, Visit visit) {
    if (empty(box)) return;
    Shape at;
    for (Interval side : box) at.push_back(side.begin);
    while (true) {
        visit(at);
        int axis = box.size();
        while (axis > 0 && ++at[axis - 1] == box[axis - 1].end) at[axis - 1] = box[axis - 1].begin, --axis;
        if (axis == 0) return;
    }
}

/// How many boxes contain each element, counted one by one; equal boxes count once.
std::vector<int> counts(const Shape& shape, std::vector<Box> boxes) {
    std::sort(boxes.begin(), boxes.end());
    boxes.erase(std::unique(boxes.begin(), boxes.end()), boxes.end());
    const Strides strides = row_major(shape);
    std::vector<int> held(std::size_t(volume(shape)));
    for (const Box& box : boxes) {
        each_element(box, [&](const Shape& at) {
            Index position = 0;
            for (int axis = 0; axis < at.size(); ++axis) position += at[axis] * strides[axis];
            ++held[std::size_t(position)];
        });
    }
    return held;
}

std::string message_of(const Catalogue& catalogue) {
    try {
        check_no_holes(catalogue);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("random tilings are whole, with empty boxes and replicas among them") {
    std::mt19937 random{1};
    for (int round = 0; round < 500; ++round) {
        const Shape shape = random_shape(random);
        std::vector<Box> boxes;
        cut(random, whole(shape), 5, boxes);
        if (!shape.empty()) {
            boxes.push_back(whole(shape));
            boxes.back()[0] = {shape[0], shape[0]};
        }
        boxes.push_back(boxes[std::size_t(between(random, 0, Index(boxes.size()) - 1))]);
        CHECK(message_of(catalogue_of(shape, boxes)) == "");
    }
}

TEST_CASE("holes are exactly the missing elements") {
    std::mt19937 random{2};
    for (int round = 0; round < 500; ++round) {
        const Shape shape = random_shape(random);
        std::vector<Box> boxes;
        cut(random, whole(shape), 4, boxes);
        std::erase_if(boxes, [&](const Box&) { return between(random, 0, 3) == 0; });
        const Catalogue catalogue = catalogue_of(shape, boxes);
        for (const Hole& hole : find_holes(catalogue)) boxes.push_back(hole.box);
        for (int count : counts(shape, boxes)) CHECK(count == 1);
    }
}

TEST_CASE("boxes that overlap are found, even if other elements are missing") {
    std::mt19937 random{3};
    for (int round = 0; round < 500; ++round) {
        const Shape shape = random_shape(random);
        std::vector<Box> boxes;
        for (Index n = between(random, 1, 4); n > 0; --n) {
            Box box;
            for (Index size : shape) {
                const Index begin = between(random, 0, size);
                box.push_back({begin, between(random, begin, size)});
            }
            boxes.push_back(box);
        }
        const std::vector<int> held = counts(shape, boxes);
        const bool overlap = std::any_of(held.begin(), held.end(), [](int count) { return count > 1; });
        const bool hole = std::any_of(held.begin(), held.end(), [](int count) { return count == 0; });
        const std::string message = message_of(catalogue_of(shape, boxes));
        CHECK((message.find("overlap") != std::string::npos) == overlap);
        CHECK((message.find("no file contains") != std::string::npos) == (hole && !overlap));
    }
}

TEST_CASE("messages name the tensor and the boxes") {
    CHECK(message_of(catalogue_of({4, 4}, {{{0, 2}, {0, 4}}})) == "tensor 'w': no file contains [2:4, 0:4]");
    CHECK(message_of(catalogue_of({4}, {{{0, 1}}, {{2, 3}}})) == "tensor 'w': no file contains [1:2] (and 1 more box)");
    CHECK(message_of(catalogue_of({4}, {{{0, 3}}, {{2, 4}}})) == "tensor 'w': boxes [0:3] and [2:4] overlap");
    CHECK(message_of(catalogue_of({4}, {{{0, 5}}})) == "tensor 'w': box [0:5] exceeds the shape [4]");
    CHECK(message_of(catalogue_of({}, {})) == "tensor 'w': no file contains []");
    CHECK(message_of(catalogue_of({0, 3}, {})) == "");
}

TEST_CASE("boxes that no straight cut separates tile a square") {
    // The pinwheel: four bars around a center.
    CHECK(message_of(catalogue_of(
              {3, 3}, {{{0, 1}, {0, 2}}, {{0, 2}, {2, 3}}, {{2, 3}, {1, 3}}, {{1, 3}, {0, 1}}, {{1, 2}, {1, 2}}})) ==
          "");
}

}  // namespace tpx
