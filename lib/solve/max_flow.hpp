// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace tpx {

/// A maximum flow from a source to a sink (Dinic 1970); after capacities grow, solve() continues from the previous
/// flow.
class MaxFlow {
public:
    MaxFlow(std::uint32_t nodes, std::uint32_t source, std::uint32_t sink);

    /// Adds an arc; returns its number.
    std::uint32_t add_arc(std::uint32_t from, std::uint32_t to, std::int64_t capacity);

    /// Precondition: the new capacity is not below the old one.
    void set_capacity(std::uint32_t arc, std::int64_t capacity);

    /// Makes the flow as large as possible.
    void solve();

    std::int64_t flow(std::uint32_t arc) const { return edges_[2 * arc + 1].left; }

    /// After solve(): whether the source could send `node` more. The arcs from such nodes to all others are a minimum
    /// cut.
    bool reached(std::uint32_t node) const { return levels_[node] != none; }

private:
    // Edges come in pairs: 2a is arc a, 2a + 1 leads back.
    struct Edge {
        std::uint32_t to;
        std::int64_t left;  // unused capacity
    };
    static constexpr std::uint32_t none = ~0u;

    void level();
    std::int64_t augment(std::uint32_t node, std::int64_t limit);

    std::uint32_t source_;
    std::uint32_t sink_;
    std::vector<Edge> edges_;
    std::vector<std::vector<std::uint32_t>> leaving_;  // edges by node
    std::vector<std::uint32_t> levels_;
    std::vector<std::uint32_t> next_;  // for each node, which leaving edge to try next
};

}  // namespace tpx
