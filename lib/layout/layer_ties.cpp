// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/layer_ties.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/condition.hpp"
#include "lib/layout/parts.hpp"

#include <algorithm>

namespace tpx {
namespace {

bool is_stored_with_others(const Dialect& dialect, const std::string& tensor) {
    return std::ranges::any_of(dialect.rules, [&](const Rule& rule) {
        const auto& parts = rule.expression.parts;
        return parts.size() > 1 && std::ranges::find(parts, tensor) != parts.end();
    });
}

/// Adds `tensor` to `have` where it is missing, as a copy of the tensor that it is tied to.
void add_copies(const Reading& source, const CanonicalTensor& tensor, Role role, const Occurrences& weights,
                Occurrences& have, ExpressedState& out) {
    const auto original = have.find(tensor.tie);
    if (original == have.end()) return;
    Occurrence& copy = have[tensor.name];
    if (copy.places.empty()) {
        copy.dtype = original->second.dtype;
        copy.stored = original->second.stored;
    }
    for (const Place place : original->second.places) {
        if (copy.places.contains(place)) continue;
        if (is_present(source, source.dialect->name, weights, tensor.name, place.layer) == true)
            throw failure("layer {}: tensor '{}' is missing; the configuration does not tie it to '{}'", place.layer,
                          tensor.name, tensor.tie);
        copy.places.insert(place);
        if (const auto sizes = original->second.sizes.find(place); sizes != original->second.sizes.end())
            copy.sizes.insert_or_assign(place, sizes->second);
        out.copies[part_name(role, tensor, indices_of(place))] =
            part_name(role, source.family->tensor(tensor.tie), indices_of(place));
    }
}

/// Throws Error if moments are stored for the tensor that `tensor` is tied to, but not for `tensor`: they belong to
/// both.
void require_moments(const CanonicalTensor& tensor, const Dialect& dialect, const Occurrences& have) {
    const auto original = have.find(tensor.tie);
    if (original == have.end()) return;
    const auto own = have.find(tensor.name);
    if (own == have.end() || !std::ranges::includes(own->second.places, original->second.places))
        throw failure(
            "optimizer state of tied values ('{}' is '{}') cannot be converted to {} names; --drop optimizer converts "
            "the weights",
            tensor.name, tensor.tie, dialect.name);
}

/// Drops `tensor` where the model lacks it under the names of `dialect`.
void drop_absent(const Reading& source, const Dialect& dialect, const CanonicalTensor& tensor, Role role,
                 const Occurrences& weights, Occurrences& have, ExpressedState& out) {
    const auto found = have.find(tensor.name);
    if (found == have.end()) return;
    const auto original = weights.find(tensor.tie);
    std::erase_if(found->second.places, [&](Place place) {
        // An unknown condition counts as true.
        if (is_present(source, dialect.name, weights, tensor.name, place.layer).value_or(true)) return false;
        if (original == weights.end() || !original->second.places.contains(place))
            throw failure("layer {}: tensor '{}' is stored without '{}', and {} names have no place for it",
                          place.layer, tensor.name, tensor.tie, dialect.name);
        const std::string name = part_name(role, tensor, indices_of(place));
        if (role == Role::weight || role == Role::master)
            out.dropped_ties[name] = part_name(role, source.family->tensor(tensor.tie), indices_of(place));
        else
            out.dropped_names.push_back(name);
        return true;
    });
    if (found->second.places.empty()) have.erase(found);
}

}  // namespace

std::optional<bool> is_present(const Reading& source, std::string_view dialect, const Occurrences& weights,
                               const std::string& tensor, int layer) {
    const auto conditions = source.family->present.find(tensor);
    if (conditions == source.family->present.end()) return std::nullopt;
    const std::string* condition = formula_for(conditions->second, dialect);
    if (!condition) return std::nullopt;
    const auto lookup = [&](std::string_view word) -> std::optional<ConfigValue> {
        if (word == "l") return std::int64_t{layer};
        if (word.size() == 1) {  // a size or, like q, a tensor
            if (const auto size = source.dims[word[0]]) return *size;
        }
        if (const auto other = weights.find(word); other != weights.end())
            return std::ranges::any_of(other->second.places, [&](Place place) { return place.layer == layer; });
        const auto found = source.config.find(word);
        if (found == source.config.end()) return std::nullopt;
        return found->second;
    };
    return evaluate_condition(*condition, lookup, source.lists);
}

void resolve_layer_ties(const Reading& source, const Dialect& dialect, States& states, ExpressedState& out) {
    for (const auto& [name, tensor] : source.family->tensors) {
        if (tensor.tie.empty() || !tensor.has('l')) continue;
        const Occurrences weights = states[Role::weight];  // before any of them changes
        if (is_stored_with_others(dialect, name)) {
            for (const Role role : {Role::weight, Role::master})
                add_copies(source, tensor, role, weights, states[role], out);
            for (const Role role : {Role::exp_avg, Role::exp_avg_sq}) require_moments(tensor, dialect, states[role]);
        } else if (is_stored_with_others(*source.dialect, name)) {
            for (auto& [role, have] : states) drop_absent(source, dialect, tensor, role, weights, have, out);
        }
    }
}

}  // namespace tpx
