// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/layer_sizes.hpp"

#include "lib/layout/dims.hpp"
#include "lib/layout/parts.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace tpx {
namespace {

/// The canonical tensors that are stored, alone or with others, in tensors with a factor whose size varies.
std::set<std::string> tensors_of_varying_size(const Reading& source) {
    std::set<std::string> tensors;
    for (const Rule& rule : source.dialect->rules) {
        const Meaning meaning{.kind = Meaning::Kind::parameter, .rule = &rule};
        const auto& parts = rule.expression.parts;
        if (has_varying_size(*source.family, meaning)) tensors.insert(parts.begin(), parts.end());
    }
    return tensors;
}

}  // namespace

void add_layer_sizes(const Reading& source, States& states) {
    if (!source.family->has_varying_sizes()) return;
    const std::set<std::string> tensors = tensors_of_varying_size(source);
    std::map<int, Dims> by_layer;
    for (auto& [role, have] : states) {
        for (auto& [name, occurrence] : have) {
            if (!tensors.contains(name)) continue;
            for (const Place place : occurrence.places) {
                const int layer = std::max(place.layer, 0);
                const auto [sizes, is_new] = by_layer.try_emplace(layer);
                if (is_new) sizes->second = sizes_in_layer(source, layer);
                occurrence.sizes.emplace(place, sizes->second);
            }
        }
    }
}

bool has_size_of_shape(const Reading& source, const Meaning& meaning) {
    return std::ranges::any_of(meaning.rule->expression.parts, [&](const std::string& part) {
        return std::ranges::any_of(source.family->tensor(part).axes, [&](const Axis& axis) {
            return std::ranges::any_of(axis, [&](Token token) {
                return source.family->varies(token.letter) &&
                       !layer_formula(*source.family, token.letter, source.source());
            });
        });
    });
}

}  // namespace tpx
