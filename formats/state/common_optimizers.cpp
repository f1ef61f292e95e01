// SPDX-License-Identifier: Apache-2.0
#include "formats/state/common_optimizers.hpp"

#include "lib/core/error.hpp"

#include <algorithm>

namespace tpx::formats {

using torch::Document;
using torch::Entry;
using torch::Kind;
using torch::Value;

Value without_keys(Document& document, Value value, std::initializer_list<std::string_view> keys) {
    std::vector<Entry> kept;
    for (const Entry& entry : value.entries())
        if (!entry.key.is(Kind::string) || std::ranges::find(keys, entry.key.as_string()) == keys.end())
            kept.push_back(entry);
    return document.dict(kept);
}

std::vector<OptimizerState> optimizers_of(Value common) {
    const auto optimizer = common.find("optimizer");
    if (!optimizer || !optimizer->is(Kind::dict)) return {};
    const auto state_of = [](Value outer) {
        OptimizerState state{.outer = outer, .groups = {}};
        const Value inner = outer.find("optimizer").value_or(outer);  // without masters there is no other dict around
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

}  // namespace tpx::formats
