// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/states.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/parts.hpp"

#include <algorithm>
#include <optional>

namespace tpx {
namespace {

bool has_role(const Dialect& dialect, Role role) {
    return std::ranges::find(dialect.roles, role, &RolePattern::role) != dialect.roles.end();
}

/// Records in `out.copies` that parts of role `to` are copies of those of role `from`, for all `places`.
void copy_parts(const Family& family, const std::string& tensor, const Occurrence& places, Role from, Role to,
                ExpressedState& out) {
    const CanonicalTensor& canonical = family.tensor(tensor);
    for (const Place place : places.places)
        out.copies[part_name(to, canonical, indices_of(place))] = part_name(from, canonical, indices_of(place));
}

}  // namespace

NameIndices indices_of(Place place) {
    return {place.layer < 0 ? std::nullopt : std::optional{place.layer},
            place.expert < 0 ? std::nullopt : std::optional{place.expert}};
}

const RolePattern& pattern_of(const Dialect& dialect, Role role, const std::set<std::string>& tags) {
    const RolePattern* found = nullptr;
    for (const RolePattern& pattern : dialect.roles) {
        if (pattern.role == role && (pattern.tag.empty() ? !found : tags.contains(pattern.tag))) found = &pattern;
    }
    if (!found) throw failure("{} names have no place for {}", dialect.name, role);
    return *found;
}

States states_of(const Reading& source, std::span<const Tensor> tensors, const Dialect& dialect,
                 std::vector<std::string>& dropped_names) {
    States states;
    for (const Role role : state_roles) {
        if (role == Role::weight || !dialect.roles.empty()) states[role] = occurrences_of(source, tensors, role);
    }
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        const Meaning& meaning = source.meanings[t];
        const bool step = meaning.role == Role::step && !dialect.roles.empty();
        if (meaning.kind != Meaning::Kind::parameter || (!states.contains(meaning.role) && !step))
            dropped_names.push_back(tensors[t].name);
    }
    return states;
}

States states_of(const ModelState& model, const Family& family) {
    States states;
    for (const StateRole& role : model.roles) {
        const bool known = std::ranges::find(state_roles, role.role) != state_roles.end();
        for (const TensorClass& kind : model.classes) {
            const bool has_role =
                known && !kind.of_virtual_nodes && (role.role == Role::weight || !family.tensor(kind.name).buffer);
            if (!has_role) continue;
            Occurrence& occurrence = states[role.role][kind.name];
            occurrence.dtype = role.dtype;
            occurrence.stored = kind.name;
            const std::vector<int> layers = kind.layers.empty() ? std::vector<int>{-1} : kind.layers;
            for (const int layer : layers) {
                if (kind.experts == 0) occurrence.places.insert({layer, -1});
                for (int expert = 0; expert < kind.experts; ++expert) occurrence.places.insert({layer, expert});
            }
        }
    }
    return states;
}

void resolve_masters(const Family& family, const Dialect& dialect, bool wanted, States& states, ExpressedState& out) {
    if (dialect.roles.empty()) return;
    Occurrences& weights = states[Role::weight];
    Occurrences& masters = states[Role::master];
    const bool named = has_role(dialect, Role::master);
    for (const auto& [name, master] : masters) {
        const auto weight = weights.find(name);
        if (weight != weights.end() && named) continue;
        if (weight != weights.end() && weight->second.places != master.places)
            throw failure("tensor '{}': only some layers have master weights", master.stored);
        weights[name] = master;
        copy_parts(family, name, master, Role::master, Role::weight, out);
    }
    if (!named) {
        masters.clear();
    } else if (wanted && masters.empty()) {
        for (const auto& [name, moment] : states[Role::exp_avg]) {
            masters[name] = weights[name];
            masters[name].dtype = DType::f32;
            copy_parts(family, name, weights[name], Role::weight, Role::master, out);
        }
    }
}

}  // namespace tpx
