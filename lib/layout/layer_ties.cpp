// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/layer_ties.hpp"

#include "lib/layout/condition.hpp"
#include "lib/layout/parts.hpp"

#include <algorithm>
#include <array>

namespace tpx {
namespace {

bool is_stored_with_others(const Dialect& dialect, const std::string& tensor) {
    return std::ranges::any_of(dialect.rules, [&](const Rule& rule) {
        const auto& parts = rule.expression.parts;
        return parts.size() > 1 && std::ranges::find(parts, tensor) != parts.end();
    });
}

/// Whether the model has `tensor` in `layer` under the names of `dialect`. A condition that is unknown counts as one
/// that holds.
bool is_present(const Reading& source, const Dialect& dialect, const Occurrences& have, const std::string& tensor,
                int layer) {
    const auto conditions = source.family->present.find(tensor);
    if (conditions == source.family->present.end()) return true;
    auto condition = conditions->second.find(dialect.name);
    if (condition == conditions->second.end()) condition = conditions->second.find("any");
    if (condition == conditions->second.end()) return true;
    const auto lookup = [&](std::string_view word) -> std::optional<ConfigValue> {
        if (word == "l") return std::int64_t{layer};
        if (const auto other = have.find(word); other != have.end())
            return std::ranges::any_of(other->second.places, [&](Place place) { return place.layer == layer; });
        const auto found = source.config.find(word);
        if (found == source.config.end()) return std::nullopt;
        return found->second;
    };
    return evaluate_condition(condition->second, lookup).value_or(true);
}

/// Gives `have` copies of the tensor that `tensor` is tied to, where it is missing.
void add_copies(const Reading& source, const CanonicalTensor& tensor, Role role, Occurrences& have, Expressed& out) {
    const auto original = have.find(tensor.tie);
    if (original == have.end()) return;
    Occurrence& copy = have[tensor.name];
    if (copy.places.empty()) {
        copy.dtype = original->second.dtype;
        copy.stored = original->second.stored;
    }
    for (const Place place : original->second.places) {
        if (!copy.places.insert(place).second) continue;
        if (const auto sizes = original->second.sizes.find(place); sizes != original->second.sizes.end())
            copy.sizes.insert_or_assign(place, sizes->second);
        out.copies[part_name(role, tensor, indices_of(place))] =
            part_name(role, source.family->tensor(tensor.tie), indices_of(place));
    }
}

/// Drops `tensor` where the model has not got it.
void drop_absent(const Reading& source, const Dialect& dialect, const CanonicalTensor& tensor,
                 const Occurrences& weights, Occurrences& have) {
    const auto found = have.find(tensor.name);
    if (found == have.end()) return;
    std::erase_if(found->second.places,
                  [&](Place place) { return !is_present(source, dialect, weights, tensor.name, place.layer); });
    if (found->second.places.empty()) have.erase(found);
}

}  // namespace

void settle_layer_ties(const Reading& source, const Dialect& dialect, States& states, Expressed& out) {
    for (const auto& [name, tensor] : source.family->tensors) {
        if (tensor.tie.empty() || !tensor.has('l')) continue;
        if (is_stored_with_others(dialect, name)) {
            for (const Role role : {Role::weight, Role::master}) add_copies(source, tensor, role, states[role], out);
        } else if (is_stored_with_others(*source.dialect, name)) {
            const Occurrences weights = states[Role::weight];
            for (auto& [role, have] : states) drop_absent(source, dialect, tensor, weights, have);
        }
    }
}

}  // namespace tpx
