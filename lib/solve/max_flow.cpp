// SPDX-License-Identifier: Apache-2.0
#include "lib/solve/max_flow.hpp"

#include <algorithm>
#include <limits>

namespace tpx {

MaxFlow::MaxFlow(std::uint32_t nodes, std::uint32_t source, std::uint32_t sink)
    : source_{source}, sink_{sink}, leaving_(nodes), levels_(nodes, none) {}

std::uint32_t MaxFlow::add_arc(std::uint32_t from, std::uint32_t to, std::int64_t capacity) {
    const auto edge = static_cast<std::uint32_t>(edges_.size());
    edges_.push_back({to, capacity});
    edges_.push_back({from, 0});
    leaving_[from].push_back(edge);
    leaving_[to].push_back(edge + 1);
    return edge / 2;
}

void MaxFlow::set_capacity(std::uint32_t arc, std::int64_t capacity) {
    edges_[2 * arc].left = capacity - edges_[2 * arc + 1].left;
}

void MaxFlow::solve() {
    for (level(); reached(sink_); level()) {
        next_.assign(leaving_.size(), 0);
        augment(source_, std::numeric_limits<std::int64_t>::max());
    }
}

// Sets the level of each node: how many edges it is from the source.
void MaxFlow::level() {
    levels_.assign(leaving_.size(), none);
    levels_[source_] = 0;
    std::vector<std::uint32_t> queue{source_};
    for (std::size_t i = 0; i < queue.size(); ++i) {
        for (std::uint32_t edge : leaving_[queue[i]]) {
            const std::uint32_t to = edges_[edge].to;
            if (edges_[edge].left == 0 || reached(to)) continue;
            levels_[to] = levels_[queue[i]] + 1;
            queue.push_back(to);
        }
    }
}

// Sends up to `limit` from `node` to the sink, each edge going up one level; returns the amount sent.
std::int64_t MaxFlow::augment(std::uint32_t node, std::int64_t limit) {
    if (node == sink_) return limit;
    std::int64_t sent = 0;
    for (std::uint32_t& i = next_[node]; i < leaving_[node].size(); ++i) {
        const std::uint32_t edge = leaving_[node][i];
        const std::uint32_t to = edges_[edge].to;
        if (edges_[edge].left == 0 || levels_[to] != levels_[node] + 1) continue;
        const std::int64_t more = augment(to, std::min(limit - sent, edges_[edge].left));
        edges_[edge].left -= more;
        edges_[edge ^ 1].left += more;
        sent += more;
        if (sent == limit) break;
    }
    return sent;
}

}  // namespace tpx
