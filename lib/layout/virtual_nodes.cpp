// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/virtual_nodes.hpp"

#include "lib/core/error.hpp"

#include <charconv>
#include <numeric>

namespace tpx {

void check_virtual_nodes(const Layout& layout, Index batch) {
    if (layout.vn == 0) return;
    if (layout.vn < layout.dp)
        throw usage_error("layout: vn={} virtual nodes cannot run on dp={}; use dp={} or less", layout.vn, layout.dp,
                          layout.vn);
    if (batch > 0 && batch < layout.vn)
        throw usage_error("a global batch of {} samples cannot be split over vn={} virtual nodes", batch, layout.vn);
}

Interval virtual_nodes_of(const Layout& layout, int dp) {
    if (layout.vn_parts.empty()) return part({0, layout.vn}, layout.dp, dp);
    const auto own = layout.vn_parts.begin() + dp;
    const Index begin = std::accumulate(layout.vn_parts.begin(), own, Index{0});
    return {begin, begin + *own};
}

int dp_of_virtual_node(const Layout& layout, int node) {
    int dp = 0;
    for (Index end = 0;; ++dp) {
        end += layout.vn_parts.empty() ? part({0, layout.vn}, layout.dp, dp).size() : layout.vn_parts[dp];
        if (node < end) return dp;
    }
}

std::optional<int> virtual_node_of(std::string_view name) {
    constexpr std::string_view key = "virtual_nodes.";
    const std::size_t at = name.find(key);
    if (at == std::string_view::npos || (at > 0 && name[at - 1] != '.')) return std::nullopt;
    const std::string_view rest = name.substr(at + key.size());
    const std::string_view number = rest.substr(0, rest.find('.'));
    int node = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), node);
    const bool spelled_once = number == "0" || (!number.empty() && number[0] >= '1' && number[0] <= '9');
    if (error != std::errc{} || end != number.data() + number.size() || !spelled_once ||
        number.size() + 1 >= rest.size())
        return std::nullopt;
    return node;
}

Interval samples_of(Interval nodes, int count, Index batch) {
    const Interval whole{0, batch};
    return {part(whole, count, nodes.begin).begin, part(whole, count, nodes.end - 1).end};
}

}  // namespace tpx
