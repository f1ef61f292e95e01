// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/model_parameters.hpp"

#include "lib/layout/model.hpp"
#include "lib/layout/occurrences.hpp"
#include "lib/layout/states.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace tpx {
namespace {

using Places = std::map<std::string, std::set<Place>, std::less<>>;

Places places_of(const ModelState& model) {
    Places places;
    for (const TensorClass& kind : model.classes) {
        const std::vector<int> layers = kind.layers.empty() ? std::vector{-1} : kind.layers;
        for (const int layer : layers) {
            if (kind.experts == 0) places[kind.name].insert({layer, -1});
            for (int expert = 0; expert < kind.experts; ++expert) places[kind.name].insert({layer, expert});
        }
    }
    return places;
}

Places places_of(const Occurrences& occurrences) {
    Places places;
    for (const auto& [name, occurrence] : occurrences) places[name] = occurrence.places;
    return places;
}

/// What the dialect of `reading` calls a canonical tensor in one place.
std::string stored_name(const Reading& reading, const std::string& tensor, Place place) {
    for (const Rule& rule : reading.dialect->rules) {
        if (rule.alias() || std::ranges::find(rule.expression.parts, tensor) == rule.expression.parts.end()) continue;
        if (const auto numbers = numbers_in(rule.name, indices_of(place), reading.dims))
            return rule.name.name(*numbers, reading.prefixed);
    }
    return tensor;
}

/// Whether the family does not say which models have the tensor.
bool undecided(const Family& family, const std::string& tensor) {
    return family.tensor(tensor).optional && !family.present.contains(tensor);
}

/// What `a` has and `b` lacks.
std::vector<PlacedTensor> beyond(const Reading& reading, const Places& a, const Places& b) {
    std::vector<PlacedTensor> found;
    for (const auto& [name, places] : a) {
        if (undecided(*reading.family, name)) continue;
        const auto other = b.find(name);
        for (const Place place : places) {
            if (other != b.end() && other->second.contains(place)) continue;
            found.push_back({name, place, stored_name(reading, name, place)});
        }
    }
    return found;
}

}  // namespace

ParameterDifference parameter_difference(const Expressed& expressed, const Config& written) {
    const Reading& reading = expressed.reading;
    const Places model = places_of(model_of(*reading.family, reading.dialect->name, written, {}));
    const Places stored = places_of(occurrences_of(reading, expressed.tensors, "weight"));
    return {beyond(reading, model, stored), beyond(reading, stored, model)};
}

}  // namespace tpx
