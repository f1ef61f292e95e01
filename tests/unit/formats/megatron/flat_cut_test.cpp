// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/flat_cut.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

namespace tpx::formats::megatron {
namespace {

/// The flat position of each element of a box that has its first at `begin`.
std::map<Tuple<Index>, Index> positions(const Box& box, const Strides& strides, Index begin) {
    std::map<Tuple<Index>, Index> found;
    Tuple<Index> at;
    for (const Interval side : box) at.push_back(side.begin);
    for (Index left = volume(box); left > 0; --left) {
        Index position = begin;
        for (int k = 0; k < box.size(); ++k) position += (at[k] - box[k].begin) * strides[k];
        found[at] = position;
        for (int k = box.size() - 1; k >= 0 && ++at[k] == box[k].end; --k) at[k] = box[k].begin;
    }
    return found;
}

}  // namespace

TEST_CASE("a flat range of a box becomes boxes that contain each of its elements once") {
    std::mt19937 random{7};
    const auto upto = [&](int most) { return std::uniform_int_distribution{0, most}(random); };
    for (int round = 0; round < 3000; ++round) {
        const int axes = upto(4);
        std::vector<int> order(static_cast<std::size_t>(axes));
        std::iota(order.begin(), order.end(), 0);
        std::ranges::shuffle(order, random);
        Box box(axes);
        Strides strides(axes);
        Index step = 1;
        for (int axis : order) {  // the fastest first; slower axes may leave gaps
            const Index begin = upto(3);
            box[axis] = {begin, begin + 1 + upto(4)};
            strides[axis] = box[axis].size() == 1 ? 0 : step;
            step = step * box[axis].size() + upto(2);
        }
        const Index begin = upto(10);
        Interval range{upto(static_cast<int>(step) + 12), 0};
        range.end = range.begin + upto(static_cast<int>(step));
        const auto all = positions(box, strides, begin);
        std::map<Tuple<Index>, Index> expected;
        for (const auto& [at, position] : all) {
            if (position >= range.begin && position < range.end) expected[at] = position;
        }
        std::map<Tuple<Index>, Index> found;
        const std::vector<FlatBox> cuts = cut_flat(box, strides, begin, range);
        std::size_t elements = 0;
        for (const FlatBox& cut : cuts) {
            const auto own = positions(cut.box, strides, cut.begin);
            elements += own.size();
            found.insert(own.begin(), own.end());
        }
        CAPTURE(to_string(box));
        REQUIRE(found == expected);
        CHECK(elements == expected.size());
        CHECK(cuts.size() <= static_cast<std::size_t>(2 * axes + 1));
    }
}

}  // namespace tpx::formats::megatron
