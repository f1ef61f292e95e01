// SPDX-License-Identifier: Apache-2.0
#include "lib/solve/edge_coloring.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <tuple>

using namespace tpx;

TEST_CASE("there are as many colors as the busiest end has links, and links at one end differ in color") {
    std::mt19937 engine{3};
    const auto below = [&](unsigned n) { return static_cast<std::uint32_t>(engine() % n); };
    for (int i = 0; i < 300; ++i) {
        const std::uint32_t nodes = 1 + below(12);
        std::vector<Link> links(below(400));
        for (Link& link : links) link = {below(nodes), below(nodes)};
        const EdgeColoring result = color(links, nodes);
        std::vector<std::uint32_t> degrees(2 * nodes);
        std::set<std::tuple<bool, std::uint32_t, std::uint32_t>> used;
        for (std::size_t k = 0; k < links.size(); ++k) {
            ++degrees[links[k].from];
            ++degrees[nodes + links[k].to];
            REQUIRE(result.color[k] < result.colors);
            REQUIRE(used.insert({false, links[k].from, result.color[k]}).second);
            REQUIRE(used.insert({true, links[k].to, result.color[k]}).second);
        }
        CHECK(result.colors == *std::ranges::max_element(degrees));
    }
}

TEST_CASE("no links need no colors") { CHECK(color({}, 3).colors == 0); }
