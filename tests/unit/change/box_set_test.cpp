// SPDX-License-Identifier: Apache-2.0
#include "lib/change/box_set.hpp"

#include "tests/unit/change/random_sides.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace tpx;
using namespace tpx::testing;

namespace {

std::multiset<Box> elements(std::span<const Box> boxes) {
    std::multiset<Box> all;
    for (const Box& box : boxes) each_element(box, [&](const Box& element) { all.insert(element); });
    return all;
}

}  // namespace

TEST_CASE("a box without a hole has the elements that are not in the hole, once") {
    RandomSides random{1};
    for (int i = 0; i < 2000; ++i) {
        const Box all = whole(random.shape());
        const Box box = random.box_in(all);
        const Box hole = random.box_in(all);
        std::vector<Box> rest;
        subtract(box, hole, rest);
        std::multiset<Box> expected;
        each_element(box, [&](const Box& e) {
            if (!contains(hole, e)) expected.insert(e);
        });
        CHECK(elements(rest) == expected);
        CHECK(overlap(box, hole) == (expected.size() < elements(std::span{&box, 1}).size()));
        CHECK(rest.size() <= std::max<std::size_t>(1, 2 * box.size()));
    }
}

TEST_CASE("a scalar without itself is empty") {
    std::vector<Box> rest;
    subtract(Box{}, Box{}, rest);
    CHECK(rest.empty());
    CHECK(overlap(Box{}, Box{}));
}

TEST_CASE("an index finds the same boxes as a linear search") {
    RandomSides random{2};
    for (int i = 0; i < 200; ++i) {
        const Box all = whole(random.shape(3, 12));
        std::vector<Box> boxes(random.number(0, 200), all);
        for (Box& box : boxes) box = random.box_in(all);
        if (random.chance(50)) std::sort(boxes.begin(), boxes.end());
        const BoxIndex index{boxes};
        const Box query = random.box_in(all);
        std::vector<std::uint32_t> found;
        std::vector<std::uint32_t> expected;
        index.overlapping(query, found);
        for (std::uint32_t k = 0; k < boxes.size(); ++k) {
            if (!empty(intersect(boxes[k], query))) expected.push_back(k);
        }
        CHECK(found == expected);
    }
}

TEST_CASE("unions and differences are those of the sets of elements") {
    RandomSides random{3};
    for (int i = 0; i < 300; ++i) {
        const Box all = whole(random.shape());
        std::vector<Box> a(random.number(0, 9), all);
        std::vector<Box> b(random.number(0, 9), all);
        for (Box& box : a) box = random.box_in(all);
        for (Box& box : b) box = random.box_in(all);

        const std::vector<Box> united = disjoint(a);
        const std::multiset<Box> once = elements(united);
        const std::multiset<Box> twice = elements(a);
        CHECK(std::set<Box>(once.begin(), once.end()).size() == once.size());
        CHECK(std::set<Box>(once.begin(), once.end()) == std::set<Box>(twice.begin(), twice.end()));
        CHECK(volume(united) == static_cast<Index>(once.size()));

        std::multiset<Box> expected = once;
        for (const Box& element : elements(b)) expected.erase(element);
        CHECK(elements(difference(united, BoxIndex{b})) == expected);
    }
}
