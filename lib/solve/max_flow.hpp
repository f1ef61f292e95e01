// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace tpx {

/// A largest flow from a source to a sink (Dinic 1970), which grows with its capacities.
class MaxFlow {
public:
    MaxFlow(std::uint32_t nodes, std::uint32_t source, std::uint32_t sink);

    /// Adds an arc; returns its number.
    std::uint32_t add_arc(std::uint32_t from, std::uint32_t to, std::int64_t capacity);

    /// Capacities only grow.
    void set_capacity(std::uint32_t arc, std::int64_t capacity);

    /// Makes the flow as large as it can be.
    void solve();

    std::int64_t flow(std::uint32_t arc) const { return edges_[2 * arc + 1].left; }

    /// After solve(): whether the source could send `node` more. Arcs out of all such nodes are a smallest cut.
    bool reached(std::uint32_t node) const { return levels_[node] != none; }

private:
    // Edges come in pairs: 2a is arc a, 2a + 1 leads back.
    struct Edge {
        std::uint32_t to;
        std::int64_t left;  // capacity that no flow uses
    };
    static constexpr std::uint32_t none = ~0u;

    void level();
    std::int64_t augment(std::uint32_t node, std::int64_t limit);

    std::uint32_t source_;
    std::uint32_t sink_;
    std::vector<Edge> edges_;
    std::vector<std::vector<std::uint32_t>> leaving_;  // edges by node
    std::vector<std::uint32_t> levels_;
    std::vector<std::uint32_t> next_;  // which of the edges that leave a node is to be tried
};

}  // namespace tpx
