// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/places.hpp"

#include <vector>

namespace tpx {

Places places_of(const ModelState& model, int layers) {
    Places places;
    for (const TensorClass& kind : model.classes) {
        std::set<Place>& found = places[kind.name];
        for (const int layer : kind.layers.empty() ? std::vector{-1} : kind.layers) {
            if (layer >= layers) continue;
            if (kind.experts == 0) found.insert({layer, -1});
            for (int expert = 0; expert < kind.experts; ++expert) found.insert({layer, expert});
        }
    }
    return places;
}

Places places_of(const Occurrences& occurrences) {
    Places places;
    for (const auto& [name, occurrence] : occurrences) places[name] = occurrence.places;
    return places;
}

bool has_layer(const std::set<Place>& places, Index layer) {
    const auto first = places.lower_bound({static_cast<int>(layer), -1});
    return first != places.end() && first->layer == layer;
}

}  // namespace tpx
