// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/virtual_node_state.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/virtual_nodes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace tpx::formats {
namespace {

/// Maps names of values, with "N" instead of the node's number, to the virtual nodes that have them.
using NodesByValue = std::map<std::string, std::set<int>>;

void add_value(const std::string& name, NodesByValue& values) {
    const auto node = virtual_node_of(name);
    if (!node) return;
    const std::string number = fmt::format("virtual_node_state.{}.", *node);
    values[std::string{name}.replace(name.find(number), number.size(), "virtual_node_state.N.")].insert(*node);
}

NodesByValue values_of_virtual_nodes(const Catalogue& catalogue) {
    NodesByValue values;
    for (const Tensor& tensor : catalogue.tensors) add_value(tensor.name, values);
    for (const Object& object : catalogue.objects) add_value(object.name, values);
    return values;
}

std::string of_node(const std::string& value, int node) {
    constexpr std::string_view any = "virtual_node_state.N.";
    return std::string{value}.replace(value.find(any), any.size(), fmt::format("virtual_node_state.{}.", node));
}

}  // namespace

void check_virtual_node_state(const Source& source, const Target& target, std::vector<std::string>& notes) {
    const NodesByValue values = values_of_virtual_nodes(source.checkpoint.catalogue);
    if (values.empty()) return;
    const int count = target.layout.vn;
    if (count == 0) {
        if (target.split_by_holders)
            notes.push_back(
                fmt::format("every host gets the state of all virtual nodes, because the layout has no vn; add vn={} "
                            "to --to",
                            1 + *values.begin()->second.rbegin()));
        return;
    }
    for (const auto& [value, nodes] : values) {
        if (*nodes.rbegin() >= count)
            throw Error{Exit::usage, "'{}' is state of virtual node {}, but the layout has vn={}",
                        of_node(value, *nodes.rbegin()), *nodes.rbegin(), count};
        int node = 0;
        while (nodes.contains(node)) ++node;
        if (node < count)
            throw failure(
                "virtual node {} has no '{}': {} of {} virtual nodes have this value; save the state of all "
                "virtual nodes, or use the vn of the job",
                node, of_node(value, node), nodes.size(), count);
    }
}

}  // namespace tpx::formats
