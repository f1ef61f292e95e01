// SPDX-License-Identifier: Apache-2.0
#include "lib/solve/max_flow.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace tpx;

namespace {

struct Arc {
    std::uint32_t from;
    std::uint32_t to;
    std::int64_t capacity;
};

// The smallest of all cuts.
std::int64_t smallest_cut(const std::vector<Arc>& arcs, std::uint32_t nodes) {
    std::int64_t least = 1 << 30;
    for (unsigned side = 1; side < (1u << nodes); side += 2) {
        if ((side >> 1 & 1u) != 0) continue;
        std::int64_t cut = 0;
        for (const Arc& arc : arcs)
            cut += (side >> arc.from & 1u) != 0 && (side >> arc.to & 1u) == 0 ? arc.capacity : 0;
        least = std::min(least, cut);
    }
    return least;
}

// The flow out of the source. Checks that every other node passes on its inflow and no arc exceeds its capacity.
std::int64_t checked_flow(const MaxFlow& flow, const std::vector<Arc>& arcs, std::uint32_t nodes) {
    std::vector<std::int64_t> out(nodes);
    for (std::uint32_t a = 0; a < arcs.size(); ++a) {
        REQUIRE(flow.flow(a) >= 0);
        REQUIRE(flow.flow(a) <= arcs[a].capacity);
        out[arcs[a].from] += flow.flow(a);
        out[arcs[a].to] -= flow.flow(a);
    }
    for (std::uint32_t node = 2; node < nodes; ++node) REQUIRE(out[node] == 0);
    return out[0];
}

}  // namespace

TEST_CASE("a flow is as large as the smallest cut, which it shows, also after capacities grew") {
    std::mt19937 engine{8};
    const auto below = [&](unsigned n) { return static_cast<std::uint32_t>(engine() % n); };
    for (int i = 0; i < 300; ++i) {
        const std::uint32_t nodes = 2 + below(7);
        std::vector<Arc> arcs(below(25));
        for (Arc& arc : arcs) arc = {below(nodes), below(nodes), below(6)};
        MaxFlow flow{nodes, 0, 1};
        for (const Arc& arc : arcs) flow.add_arc(arc.from, arc.to, arc.capacity);
        for (int round = 0; round < 3; ++round) {
            flow.solve();
            std::int64_t cut = 0;
            for (const Arc& arc : arcs) cut += flow.reached(arc.from) && !flow.reached(arc.to) ? arc.capacity : 0;
            CHECK(checked_flow(flow, arcs, nodes) == smallest_cut(arcs, nodes));
            CHECK(cut == smallest_cut(arcs, nodes));
            for (std::uint32_t a = 0; a < arcs.size(); ++a) {
                arcs[a].capacity += below(3);
                flow.set_capacity(a, arcs[a].capacity);
            }
        }
    }
}
