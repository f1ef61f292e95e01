// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/regroup.hpp"

#include "formats/deepspeed/groups.hpp"
#include "lib/core/error.hpp"

namespace tpx::formats::deepspeed {
namespace {

Index elements_of_rank(const Group& group, int partitions) {
    Index count = 0;
    for (const Index numel : numels(group)) count += part_of_parameter(numel, partitions);
    return count;
}

/// Adds the sub-groups of one group of parameters, whose old sub-groups are `old`, the first of them number `first`.
void add_subgroups(const std::vector<Group>& old, std::size_t first, Index largest, int from, int to, Subgroups& out) {
    Group whole;
    for (const Group& part : old) whole.insert(whole.end(), part.begin(), part.end());
    if (cut_subgroups(whole, largest, from) != old)
        throw failure("sub-group {} and those behind it are not cut by sub_group_size {}", first, largest);
    for (Group& part : cut_subgroups(whole, largest, to)) {
        out.groups.push_back(std::move(part));
        out.like.push_back(first);
    }
}

}  // namespace

Group deal(const Group& group, int partitions) {
    Group dealt;
    for (int k = 0; k < partitions; ++k) {
        for (std::size_t i = static_cast<std::size_t>(k); i < group.size(); i += static_cast<std::size_t>(partitions))
            dealt.push_back(group[i]);
    }
    return dealt;
}

Group deal_again(const Group& group, const std::vector<std::string>& module, int from, int to) {
    const std::map<std::string, Shape> shapes{group.begin(), group.end()};
    Group ordered;
    for (const std::string& name : module) {
        const auto found = shapes.find(name);
        if (found != shapes.end()) ordered.push_back(*found);
    }
    if (deal(ordered, from) != group)
        throw failure("round-robin partitions whose order is not that of the module's parameters");
    return deal(ordered, to);
}

std::vector<Group> cut_subgroups(const Group& group, Index largest, int partitions) {
    if (elements_of_rank(group, partitions) <= largest) return {group};
    std::vector<Group> parts;
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

Subgroups regroup(const std::vector<Group>& old, const std::vector<std::size_t>& counts, Index largest, int from,
                  int to) {
    Subgroups result;
    std::size_t first = 0;
    for (const std::size_t count : counts) {
        if (count > old.size() - first) throw failure("param_groups name more than {} sub-groups", old.size());
        const auto begin = old.begin() + static_cast<std::ptrdiff_t>(first);
        const std::size_t before = result.groups.size();
        if (count > 0)
            add_subgroups({begin, begin + static_cast<std::ptrdiff_t>(count)}, first, largest, from, to, result);
        result.counts.push_back(result.groups.size() - before);
        first += count;
    }
    if (first != old.size()) throw failure("param_groups name {} of {} sub-groups", first, old.size());
    return result;
}

}  // namespace tpx::formats::deepspeed
