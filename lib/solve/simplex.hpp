// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace tpx {

/// A minimum-cost flow through arcs of unlimited capacity, computed by the network simplex method, with the prices that
/// prove it optimal. Trees stay strongly feasible (Cunningham 1976), so the method ends even if many pivots move no
/// flow. Costs have 128 bits, so that they add up along paths without overflow.
class Simplex {
public:
    using Cost = __int128;

    explicit Simplex(std::uint32_t nodes);

    /// Adds an arc with the initial flow `flow`; returns its number. The arcs must not form a directed cycle of
    /// negative cost, and the arcs with an initial flow must not form a cycle of any kind.
    std::uint32_t add_arc(std::uint32_t from, std::uint32_t to, Cost cost, std::int64_t flow = 0);

    /// Makes the flow the cheapest one that leaves as much in every node as the initial flow does.
    void solve();

    std::int64_t flow(std::uint32_t arc) const { return arcs_[arc].flow; }
    Cost cost(std::uint32_t arc) const { return arcs_[arc].cost; }
    std::uint32_t from(std::uint32_t arc) const { return arcs_[arc].from; }
    std::uint32_t to(std::uint32_t arc) const { return arcs_[arc].to; }

    /// After solve(): cost + price(from) - price(to) is never negative, and 0 for arcs that carry a flow.
    Cost price(std::uint32_t node) const { return nodes_[node].price; }

private:
    struct Arc {
        std::uint32_t from;
        std::uint32_t to;
        Cost cost;
        std::int64_t flow;
    };
    // Nodes form a tree: the last node is its root; `arc` leads to or from the parent.
    struct Node {
        Cost price = 0;
        std::uint32_t parent = none;
        std::uint32_t arc = none;
        std::uint32_t depth = 0;
        std::uint32_t child = none;  // the first child
        std::uint32_t next = none;   // children of one parent form a list
        std::uint32_t previous = none;
    };
    static constexpr std::uint32_t none = ~0u;

    Cost reduced_cost(const Arc& arc) const { return arc.cost + nodes_[arc.from].price - nodes_[arc.to].price; }
    bool leads_up(std::uint32_t node) const { return arcs_[nodes_[node].arc].from == node; }
    void plant();
    void attach(std::uint32_t node, std::uint32_t parent, std::uint32_t arc);
    void detach(std::uint32_t node);
    std::uint32_t find_entering();
    std::uint32_t join(std::uint32_t a, std::uint32_t b) const;
    void pivot(std::uint32_t entering);
    void push(const Arc& entering, std::uint32_t top, std::int64_t amount);
    void rehang(std::uint32_t entering, std::uint32_t node, std::uint32_t parent, std::uint32_t cut);
    void reprice(std::uint32_t top, Cost change);

    std::vector<Arc> arcs_;
    std::vector<Node> nodes_;
    std::uint32_t arc_count_ = 0;  // arcs after these lead to the root and are never considered
    std::uint32_t position_ = 0;   // where the search for entering arcs continues
};

}  // namespace tpx
