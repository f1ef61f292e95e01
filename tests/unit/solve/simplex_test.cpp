// SPDX-License-Identifier: Apache-2.0
#include "lib/solve/simplex.hpp"

#include <doctest/doctest.h>

#include <random>

using namespace tpx;

TEST_CASE("a flow respects the supply of each node, and the prices prove that no flow is cheaper") {
    std::mt19937 engine{6};
    const auto below = [&](unsigned n) { return static_cast<std::uint32_t>(engine() % n); };
    for (int i = 0; i < 500; ++i) {
        CAPTURE(i);
        // Arcs lead from lower to higher nodes, so that there are no cycles; the first ones carry a flow along a path.
        const std::uint32_t nodes = 2 + below(20);
        const std::uint32_t costs = i % 2 == 0 ? 3 : 1000;
        Simplex flow{nodes};
        std::vector<std::int64_t> gives(nodes);
        std::uint32_t arcs = 0;
        const auto cost = [&] { return static_cast<Simplex::Cost>(below(costs)) - costs / 2; };
        for (std::uint32_t node = 0; node + 1 < nodes; ++node) {
            const std::int64_t carried = below(4);
            flow.add_arc(node, node + 1, cost(), carried);
            gives[node] += carried;
            gives[node + 1] -= carried;
            ++arcs;
        }
        for (std::uint32_t more = below(100); more > 0; --more) {
            const std::uint32_t from = below(nodes - 1);
            flow.add_arc(from, from + 1 + below(nodes - from - 1), cost());
            ++arcs;
        }
        flow.solve();
        for (std::uint32_t arc = 0; arc < arcs; ++arc) {
            CHECK(flow.flow(arc) >= 0);
            gives[flow.from(arc)] -= flow.flow(arc);
            gives[flow.to(arc)] += flow.flow(arc);
            const Simplex::Cost reduced = flow.cost(arc) + flow.price(flow.from(arc)) - flow.price(flow.to(arc));
            CHECK(reduced >= 0);
            if (flow.flow(arc) != 0) CHECK(reduced == 0);
        }
        CHECK(gives == std::vector<std::int64_t>(nodes));
    }
}
