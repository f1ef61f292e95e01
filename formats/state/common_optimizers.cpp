// SPDX-License-Identifier: Apache-2.0
#include "formats/state/common_optimizers.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <array>

namespace tpx::formats {

using torch::Document;
using torch::Entry;
using torch::Kind;
using torch::Value;

std::vector<OptimizerState> optimizers_of(Value common) {
    const auto optimizer = common.find("optimizer");
    if (!optimizer || !optimizer->is(Kind::dict)) return {};
    const auto state_of = [](Value outer) {
        OptimizerState state{.outer = outer, .groups = {}};
        const Value inner = outer.find("optimizer").value_or(outer);  // without masters there is no outer dict
        const auto groups = inner.is(Kind::dict) ? inner.find("param_groups") : std::nullopt;
        if (!groups) throw failure("the common state has an optimizer without param_groups");
        state.groups.assign(groups->items().begin(), groups->items().end());
        return state;
    };
    if (optimizer->find("optimizer") || optimizer->find("param_groups")) return {state_of(*optimizer)};
    std::vector<OptimizerState> states;
    for (const Entry& entry : optimizer->entries()) {
        if (entry.key.is(Kind::integer)) states.push_back(state_of(entry.value));
    }
    return states;
}

Adam adam_of_groups(std::span<const MegatronGroup> groups) {
    Adam adam;
    std::array<bool, 2> seen{};
    for (const MegatronGroup& group : groups) {
        const bool decays = group.wd_mult != 0;
        (decays ? adam.matrices : adam.vectors) = group.settings;
        seen[decays ? 0 : 1] = true;
        adam.step = std::max(adam.step, group.step);  // a group may lack it
    }
    if (!seen[0]) adam.matrices = adam.vectors;
    if (!seen[1]) adam.vectors = adam.matrices;
    adam.vectors.weight_decay = 0;
    return adam;
}

void MegatronGroup::read(std::string_view key, Value value) {
    set(settings, key, value, nullptr);
    if (key == "wd_mult") wd_mult = value.as_real();
    if (key == "step" && value.is(Kind::integer)) step = value.as_int();
}

}  // namespace tpx::formats
