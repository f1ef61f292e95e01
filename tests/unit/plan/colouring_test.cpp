// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/colouring.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <tuple>

using namespace tpx;

TEST_CASE("links get as many colours as the busiest end has links, no two of a colour at one end") {
    std::mt19937 engine{3};
    const auto below = [&](unsigned n) { return static_cast<std::uint32_t>(engine() % n); };
    for (int i = 0; i < 300; ++i) {
        const std::uint32_t nodes = 1 + below(12);
        std::vector<Link> links(below(400));
        for (Link& link : links) link = {below(nodes), below(nodes)};
        const Colouring result = colour(links, nodes);
        std::vector<std::uint32_t> degrees(2 * nodes);
        std::set<std::tuple<bool, std::uint32_t, std::uint32_t>> used;
        for (std::size_t k = 0; k < links.size(); ++k) {
            ++degrees[links[k].from];
            ++degrees[nodes + links[k].to];
            REQUIRE(result.colour[k] < result.colours);
            REQUIRE(used.insert({false, links[k].from, result.colour[k]}).second);
            REQUIRE(used.insert({true, links[k].to, result.colour[k]}).second);
        }
        CHECK(result.colours == *std::ranges::max_element(degrees));
    }
}

TEST_CASE("no links need no colours") { CHECK(colour({}, 3).colours == 0); }
