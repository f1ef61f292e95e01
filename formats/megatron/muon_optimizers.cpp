// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/muon_optimizers.hpp"

#include "formats/encodings/torch/without_keys.hpp"
#include "formats/megatron/plain_optimizer.hpp"
#include "formats/megatron/rank_optimizer.hpp"
#include "formats/megatron/rank_state.hpp"
#include "formats/state/common_state.hpp"
#include "lib/core/error.hpp"

#include <algorithm>

namespace tpx::formats::megatron {
namespace {

using torch::Document;
using torch::Entry;
using torch::Value;

template <class Condition>
bool any_group(const std::vector<OptimizerState>& states, Condition&& holds) {
    return std::ranges::any_of(states,
                               [&](const OptimizerState& state) { return std::ranges::any_of(state.groups, holds); });
}

/// Whether `parameter` belongs to `group`; `split`: experts have groups of their own.
bool is_member(const TrainedParameter& parameter, Value group, bool split) {
    return is_muon_group(group) == has_momentum(parameter.name, parameter.axes) &&
           (decay_of(group) == 0) == without_decay(parameter.name, parameter.axes) &&
           (!split || is_group_of_experts(group) == is_of_experts(parameter.name));
}

/// The optimizer `outer` with `groups`, without fp32_from_fp16_params, which a rank without parameters leaves behind.
Value with_groups(Document& document, Value outer, const std::vector<Value>& groups) {
    outer = torch::without_keys(document, outer, {"fp32_from_fp16_params"});
    const auto inner = outer.find("optimizer");
    const Value made = document.with_key(inner.value_or(outer), "param_groups", document.list(groups));
    return inner ? document.with_key(outer, "optimizer", made) : made;
}

/// The groups for experts that `state` lacks: those of Muon and, if experts have `vectors`, of Adam, which has no other
/// parameters of experts.
std::vector<Value> missing_groups(Document& document, const std::vector<OptimizerState>& states,
                                  const OptimizerState& state, bool vectors) {
    std::vector<Value> found;
    for (const Value group : state.groups) {
        const bool muon = is_muon_group(group);
        if (is_group_of_experts(group) || (!muon && (!vectors || decay_of(group) != 0))) continue;
        const auto same = [&](Value other) { return is_group_of_experts(other) && is_muon_group(other) == muon; };
        if (any_group(states, same)) continue;
        found.push_back(document.with_key(group, "is_expert_parallel", Value::boolean(true)));
    }
    return found;
}

}  // namespace

GroupMembers members_of_muon(const std::vector<OptimizerState>& states, std::span<const TrainedParameter> parameters) {
    const bool split = any_group(states, is_group_of_experts);
    GroupMembers members;
    for (const OptimizerState& state : states) members.emplace_back(state.groups.size());
    for (std::size_t p = 0; p < parameters.size(); ++p) {
        int found = 0;
        for (std::size_t s = 0; s < states.size(); ++s) {
            for (std::size_t g = 0; g < states[s].groups.size(); ++g) {
                if (!is_member(parameters[p], states[s].groups[g], split)) continue;
                members[s][g].push_back(p);
                ++found;
            }
        }
        if (found != 1)
            throw failure("tensor '{}': {} groups of Muon and Adam contain it; expected 1", parameters[p].name, found);
    }
    return members;
}

Value with_muon_of_experts(Document& document, Value common, const std::vector<OptimizerState>& states, bool two,
                           bool vectors) {
    const Config args = args_of(common);
    const bool by_layers = holds(args, "optimizer=dist_muon") || holds(args, "use_layer_wise_distributed_optimizer");
    std::vector<Value> made;
    for (const OptimizerState& state : states) {
        std::vector<Value> groups = state.groups;
        if (!two) std::erase_if(groups, is_group_of_experts);
        std::vector<Value> experts = two ? missing_groups(document, states, state, vectors) : std::vector<Value>{};
        if (by_layers && !experts.empty() && is_muon_group(experts[0])) {
            groups.insert(groups.end(), experts.begin(), experts.end());
            experts.clear();
        }
        if (!groups.empty()) made.push_back(with_groups(document, state.outer, groups));
        if (!experts.empty()) made.push_back(with_groups(document, state.outer, experts));
    }
    std::vector<Entry> entries;
    for (std::size_t k = 0; k < made.size(); ++k)
        entries.push_back({document.integer(static_cast<std::int64_t>(k)), made[k]});
    return document.with_key(common, "optimizer", document.dict(entries));
}

}  // namespace tpx::formats::megatron
