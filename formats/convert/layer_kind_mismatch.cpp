// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/layer_kind_mismatch.hpp"

#include "formats/convert/numbered_layers.hpp"
#include "lib/layout/deciding_settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace tpx::formats {
namespace {

/// The tensor that a layer has according to config.json, and the tensor that the checkpoint stores instead.
using Difference = std::pair<std::string, std::string>;

/// The names of optional tensors that `there` has in `layer` and `here` does not.
std::vector<std::string> only_there(const Family& family, const Places& there, const Places& here, int layer) {
    std::vector<std::string> names;
    for (const auto& [name, places] : there)
        if (family.tensor(name).optional && has_layer(places, layer) &&
            !(here.contains(name) && has_layer(here.at(name), layer)))
            names.push_back(name);
    return names;
}

/// "layers 0, 2", or "layers 0 to 4 and 3 more".
std::string some_layers(const std::vector<Index>& layers) {
    const std::size_t most = 5;
    if (layers.size() <= most) return layers_text(layers);
    return fmt::format("{} and {} more", layers_text({layers.begin(), layers.begin() + most}), layers.size() - most);
}

}  // namespace

std::string layer_kind_mismatch(const Reading& reading, const Occurrences& stored, const Places& model) {
    const Places places = places_of(stored);
    std::set<int> layers;
    for (const auto& [name, where] : places)
        for (const Place& place : where) layers.insert(place.layer);
    std::vector<std::pair<Difference, std::vector<Index>>> found;  // in order of their first layers
    for (const int layer : layers) {
        const auto lacks = only_there(*reading.family, model, places, layer);
        const auto more = only_there(*reading.family, places, model, layer);
        if (layer < 0 || more.empty() || lacks.empty()) continue;
        const Difference difference{lacks[0], more[0]};
        auto same = std::ranges::find(found, difference, [](const auto& entry) { return entry.first; });
        if (same == found.end()) same = found.insert(found.end(), {difference, {}});
        same->second.push_back(layer);
    }
    std::vector<std::string> lines;
    for (const auto& [difference, where] : found) {
        const auto& [described, stored_instead] = difference;
        const auto settings = deciding_settings(reading, model, where[0], described);
        lines.push_back(fmt::format(
            "{}: config.json{} describes '{}', but the checkpoint stores '{}'", some_layers(where),
            settings.empty() ? "" : fmt::format(" ({})", fmt::join(settings, ", ")), described, stored_instead));
    }
    return fmt::format("{}", fmt::join(lines, "; "));
}

}  // namespace tpx::formats
