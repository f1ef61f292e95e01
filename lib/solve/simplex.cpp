// SPDX-License-Identifier: Apache-2.0
#include "lib/solve/simplex.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tpx {

Simplex::Simplex(std::uint32_t nodes) : nodes_(nodes + 1) {}

std::uint32_t Simplex::add_arc(std::uint32_t from, std::uint32_t to, Cost cost, std::int64_t flow) {
    arcs_.push_back({from, to, cost, flow});
    return static_cast<std::uint32_t>(arcs_.size() - 1);
}

void Simplex::solve() {
    arc_count_ = static_cast<std::uint32_t>(arcs_.size());
    plant();
    for (std::uint32_t arc = find_entering(); arc != none; arc = find_entering()) pivot(arc);
    arcs_.resize(arc_count_);
}

// Attaches the trees that the initial flow forms to the root, by arcs that could carry flow to the root but never do:
// no arc leaves the root.
void Simplex::plant() {
    const auto root = static_cast<std::uint32_t>(nodes_.size() - 1);
    std::vector<std::vector<std::uint32_t>> carrying(root);
    for (std::uint32_t a = 0; a < arc_count_; ++a) {
        if (arcs_[a].flow == 0) continue;
        carrying[arcs_[a].from].push_back(a);
        carrying[arcs_[a].to].push_back(a);
    }
    std::vector<std::uint32_t> reached;
    for (std::uint32_t start = 0; start < root; ++start) {
        if (nodes_[start].parent != none) continue;
        attach(start, root, add_arc(start, root, 0));
        reached.assign(1, start);
        while (!reached.empty()) {
            const std::uint32_t node = reached.back();
            reached.pop_back();
            for (std::uint32_t a : carrying[node]) {
                if (a == nodes_[node].arc) continue;
                const std::uint32_t other = arcs_[a].from == node ? arcs_[a].to : arcs_[a].from;
                attach(other, node, a);
                nodes_[other].price = nodes_[node].price + (arcs_[a].to == other ? arcs_[a].cost : -arcs_[a].cost);
                reached.push_back(other);
            }
        }
    }
}

void Simplex::attach(std::uint32_t node, std::uint32_t parent, std::uint32_t arc) {
    Node& it = nodes_[node];
    it.parent = parent;
    it.arc = arc;
    it.depth = nodes_[parent].depth + 1;
    it.previous = none;
    it.next = nodes_[parent].child;
    if (it.next != none) nodes_[it.next].previous = node;
    nodes_[parent].child = node;
}

void Simplex::detach(std::uint32_t node) {
    const Node& it = nodes_[node];
    (it.previous == none ? nodes_[it.parent].child : nodes_[it.previous].next) = it.next;
    if (it.next != none) nodes_[it.next].previous = it.previous;
}

// The arc that saves the most among some arcs after the last one considered, or `none` when no arc saves anything.
std::uint32_t Simplex::find_entering() {
    const auto block = std::max(20u, static_cast<std::uint32_t>(2 * std::sqrt(static_cast<double>(arc_count_))));
    std::uint32_t best = none;
    Cost lowest = 0;
    for (std::uint32_t seen = 1; seen <= arc_count_; ++seen) {
        if (position_ >= arc_count_) position_ = 0;
        const Cost cost = reduced_cost(arcs_[position_]);
        if (cost < lowest) {
            lowest = cost;
            best = position_;
        }
        ++position_;
        if (best != none && seen % block == 0) break;
    }
    return best;
}

std::uint32_t Simplex::join(std::uint32_t a, std::uint32_t b) const {
    while (a != b) {
        std::uint32_t& deeper = nodes_[a].depth >= nodes_[b].depth ? a : b;
        deeper = nodes_[deeper].parent;
    }
    return a;
}

// Of the arcs that limit the flow around the cycle, the last one on the way around from the join leaves the tree: this
// keeps the tree strongly feasible.
void Simplex::pivot(std::uint32_t entering) {
    const Arc arc = arcs_[entering];
    const std::uint32_t top = join(arc.from, arc.to);
    std::int64_t amount = std::numeric_limits<std::int64_t>::max();
    std::uint32_t cut = none;
    bool cut_on_from_side = true;
    for (std::uint32_t node = arc.from; node != top; node = nodes_[node].parent) {
        if (!leads_up(node) || arcs_[nodes_[node].arc].flow >= amount) continue;
        amount = arcs_[nodes_[node].arc].flow;
        cut = node;
    }
    for (std::uint32_t node = arc.to; node != top; node = nodes_[node].parent) {
        if (leads_up(node) || arcs_[nodes_[node].arc].flow > amount) continue;
        amount = arcs_[nodes_[node].arc].flow;
        cut = node;
        cut_on_from_side = false;
    }
    const Cost saving = reduced_cost(arc);
    if (amount != 0) {
        push(arc, top, amount);
        arcs_[entering].flow += amount;
    }
    const std::uint32_t node = cut_on_from_side ? arc.from : arc.to;
    rehang(entering, node, cut_on_from_side ? arc.to : arc.from, cut);
    reprice(node, cut_on_from_side ? -saving : saving);
}

void Simplex::push(const Arc& entering, std::uint32_t top, std::int64_t amount) {
    for (std::uint32_t node = entering.from; node != top; node = nodes_[node].parent)
        arcs_[nodes_[node].arc].flow += leads_up(node) ? -amount : amount;
    for (std::uint32_t node = entering.to; node != top; node = nodes_[node].parent)
        arcs_[nodes_[node].arc].flow += leads_up(node) ? amount : -amount;
}

// Detaches the subtree of `cut`, makes `node` its root, and attaches it to `parent`.
void Simplex::rehang(std::uint32_t entering, std::uint32_t node, std::uint32_t parent, std::uint32_t cut) {
    std::uint32_t arc = entering;
    while (true) {
        const std::uint32_t above = nodes_[node].parent;
        const std::uint32_t arc_above = nodes_[node].arc;
        detach(node);
        attach(node, parent, arc);
        if (node == cut) return;
        parent = node;
        node = above;
        arc = arc_above;
    }
}

void Simplex::reprice(std::uint32_t top, Cost change) {
    std::uint32_t node = top;
    while (true) {
        nodes_[node].price += change;
        nodes_[node].depth = nodes_[nodes_[node].parent].depth + 1;
        if (nodes_[node].child != none) {
            node = nodes_[node].child;
            continue;
        }
        while (node != top && nodes_[node].next == none) node = nodes_[node].parent;
        if (node == top) return;
        node = nodes_[node].next;
    }
}

}  // namespace tpx
