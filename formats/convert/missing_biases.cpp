// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/missing_biases.hpp"

#include "formats/driver.hpp"
#include "formats/state/roles.hpp"
#include "lib/layout/model_parameters.hpp"
#include "lib/layout/parts.hpp"
#include "lib/layout/states.hpp"

#include <algorithm>

namespace tpx::formats {
namespace {

/// The rule of `dialect` for the stored tensor with `missing` whose parts are all missing in the same layer; else null.
const Rule* rule_in(const Dialect& dialect, const Reading& reading, const PlacedTensor& missing,
                    std::span<const PlacedTensor> all) {
    for (const Rule& rule : dialect.rules) {
        const auto& parts = rule.expression.parts;
        const bool has = std::ranges::find(parts, missing.tensor) != parts.end();
        if (!has || rule.alias() || !numbers_in(rule.name, indices_of(missing.place), reading.dims)) continue;
        const bool whole = std::ranges::all_of(parts, [&](const std::string& part) {
            return std::ranges::any_of(
                all, [&](const PlacedTensor& other) { return other.tensor == part && other.place == missing.place; });
        });
        if (whole && rule.name.has('l')) return &rule;
    }
    return nullptr;
}

/// The rule in the source's dialect or, if there is none, in `target`.
const Rule* rule_for(const Reading& reading, const Dialect& target, const PlacedTensor& missing,
                     std::span<const PlacedTensor> all) {
    const Rule* rule = rule_in(*reading.dialect, reading, missing, all);
    return rule ? rule : rule_in(target, reading, missing, all);
}

void add(Source& source, const Rule& rule, Place place) {
    Reading& reading = source.reading;
    Catalogue& catalogue = source.checkpoint.catalogue;
    Meaning meaning{Meaning::Kind::parameter, &rule, Role::weight, indices_of(place)};
    if (!rule.name.has('e')) meaning.indices.expert.reset();  // one tensor for all experts
    const NameIndices numbers = numbers_in(rule.name, meaning.indices, reading.dims).value();
    std::string name = rule.name.name(numbers, reading.prefixed);
    if (std::ranges::find(catalogue.tensors, name, &Tensor::name) != catalogue.tensors.end()) return;
    Shape shape;
    for (const FactoredAxis& axis : factored_shape(*reading.family, meaning, reading.dims, 1))
        shape.push_back(axis.size);
    source.added_biases.push_back(static_cast<std::uint32_t>(catalogue.tensors.size()));
    catalogue.tensors.push_back({std::move(name), catalogue.tensors.front().dtype, shape});
    reading.meanings.push_back(meaning);
    if (!source.checkpoint.roles.empty()) source.checkpoint.roles.push_back(Role::weight);
}

}  // namespace

void add_missing_biases(Source& source, const Target& target) {
    const Reading& reading = source.reading;
    const auto model_difference = target.format->model_difference;
    if (model_difference == nullptr || !reading.family || !reading.complete || reading.source() == "mcore") return;
    const Dialect* dialect = reading.family->dialect("mcore");
    if (!dialect || !reading.unknown.empty()) return;
    Config config = reading.config;
    for (const auto& [key, value] : target.config) config[key] = value;
    const ExpressedState expressed =
        express(reading, source.checkpoint.catalogue.tensors, *dialect, config, target.layout.tp, {"te", "seq"});
    const std::vector<PlacedTensor> missing = model_difference(expressed, config).missing;
    for (const PlacedTensor& one : missing) {
        const Rule* rule = one.tensor.ends_with("_bias") ? rule_for(reading, *dialect, one, missing) : nullptr;
        if (rule) add(source, *rule, one.place);
    }
}

}  // namespace tpx::formats
