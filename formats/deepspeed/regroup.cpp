// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/regroup.hpp"

#include "formats/deepspeed/groups.hpp"
#include "lib/core/error.hpp"

namespace tpx::formats::deepspeed {
namespace {

Index elements_of_rank(const ParameterGroup& group, int partitions) {
    Index count = 0;
    for (const Index numel : numels(group)) count += part_of_parameter(numel, partitions);
    return count;
}

}  // namespace

ParameterGroup round_robin_order(const ParameterGroup& group, int partitions) {
    ParameterGroup dealt;
    for (int k = 0; k < partitions; ++k) {
        for (std::size_t i = static_cast<std::size_t>(k); i < group.size(); i += static_cast<std::size_t>(partitions))
            dealt.push_back(group[i]);
    }
    return dealt;
}

ParameterGroup reorder_round_robin(const ParameterGroup& group, const std::vector<std::string>& module, int from,
                                   int to) {
    const std::map<std::string, Shape> shapes{group.begin(), group.end()};
    ParameterGroup ordered;
    for (const std::string& name : module) {
        const auto found = shapes.find(name);
        if (found != shapes.end()) ordered.push_back(*found);
    }
    if (round_robin_order(ordered, from) != group)
        throw failure("round-robin partitions are not in the order of the module's parameters");
    return round_robin_order(ordered, to);
}

std::vector<ParameterGroup> cut_subgroups(const ParameterGroup& group, Index largest, int partitions) {
    if (elements_of_rank(group, partitions) <= largest) return {group};
    std::vector<ParameterGroup> parts;
    Index length = 0;
    bool full = true;
    for (const auto& parameter : group) {
        if (full) parts.emplace_back();
        length = (full ? 0 : length) + part_of_parameter(volume(parameter.second), partitions);
        parts.back().push_back(parameter);
        full = length >= largest;
    }
    return parts;
}

}  // namespace tpx::formats::deepspeed
