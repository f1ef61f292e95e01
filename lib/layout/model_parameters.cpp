// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/model_parameters.hpp"

#include "lib/layout/model_state.hpp"
#include "lib/layout/places.hpp"
#include "lib/layout/states.hpp"
#include "lib/layout/stored_name.hpp"

#include <algorithm>
#include <limits>

namespace tpx {
namespace {

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
            found.push_back({name, place, stored_name(reading, name, indices_of(place))});
        }
    }
    return found;
}

}  // namespace

ParameterDifference parameter_difference(const ExpressedState& expressed, const Config& written) {
    const Reading& reading = expressed.reading;
    // Without its tensors, the parameters of such a model are unknown.
    if (has_sizes_of_shapes(*reading.family, reading.dialect->name)) return {};
    const Places model =
        places_of(model_of(*reading.family, reading.dialect->name, written, {}), std::numeric_limits<int>::max());
    const Places stored = places_of(occurrences_of(reading, expressed.tensors, Role::weight));
    return {beyond(reading, model, stored), beyond(reading, stored, model)};
}

}  // namespace tpx
