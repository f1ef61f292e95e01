// SPDX-License-Identifier: Apache-2.0
#include "formats/state/differences.hpp"

#include <string_view>
#include <unordered_map>

namespace tpx::formats {
namespace {

bool equal(const StateNode& a, const StateNode& b) {
    const bool same_head = a.kind == b.kind && a.type == b.type && a.text == b.text && a.count == b.count &&
                           a.bytes == b.bytes && a.dtype == b.dtype && a.shape == b.shape && a.digest == b.digest;
    if (!same_head || a.children.size() != b.children.size()) return false;
    for (std::size_t i = 0; i < a.children.size(); ++i) {
        if (a.children[i].key != b.children[i].key || !equal(a.children[i].node, b.children[i].node)) return false;
    }
    return true;
}

}  // namespace

std::optional<StateNode> differences(const StateNode& node, const StateNode& first) {
    if (equal(node, first)) return std::nullopt;
    if (node.kind != StateNode::Kind::mapping || first.kind != node.kind || !node.plain_keys || !first.plain_keys)
        return node;
    std::unordered_map<std::string_view, const StateNode*> known;
    for (const StateChild& child : first.children) known[child.key] = &child.node;
    StateNode result = node;
    result.children.clear();
    for (const StateChild& child : node.children) {
        const auto found = known.find(child.key);
        auto other = found == known.end() ? std::optional{child.node} : differences(child.node, *found->second);
        if (other) result.children.push_back({child.key, std::move(*other)});
    }
    return result;
}

}  // namespace tpx::formats
