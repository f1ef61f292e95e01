// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/other_kind.hpp"

#include "formats/convert/numbered_layers.hpp"
#include "lib/layout/dims.hpp"

#include <fmt/format.h>

#include <cctype>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace tpx::formats {
namespace {

bool in_layer(const std::set<Place>& places, int layer) {
    const auto first = places.lower_bound({layer, -1});
    return first != places.end() && first->layer == layer;
}

/// The names of optional tensors that are in `layer` of `there` and not in that of `here`.
template <typename There, typename Here>
std::vector<std::string> only_there(const Family& family, const There& there, const Here& here, int layer) {
    std::vector<std::string> names;
    for (const auto& [name, places] : there)
        if (family.tensor(name).optional && in_layer(places, layer) &&
            !(here.contains(name) && in_layer(here.at(name), layer)))
            names.push_back(name);
    return names;
}

/// Adds the settings that the condition for tensor `name` depends on, each as "KEY = VALUE", or as KEY if it is a list.
void add_settings(const Reading& reading, const std::string& name, std::set<std::string>& seen,
                  std::set<std::string>& settings) {
    const auto conditions = reading.family->present.find(name);
    if (conditions == reading.family->present.end() || !seen.insert(name).second) return;
    const std::string* condition = formula_for(conditions->second, reading.dialect->name);
    const std::string text = (condition ? *condition : "") + " ";
    for (std::size_t begin = 0, k = 0; k < text.size(); ++k) {
        if (std::isalnum(static_cast<unsigned char>(text[k])) || text[k] == '_' || text[k] == '.') continue;
        const std::string word = text.substr(begin, k - begin);
        begin = k + 1;
        const auto value = reading.config.find(word);
        if (value != reading.config.end())
            settings.insert(text[k] == '[' ? word : fmt::format("{} = {}", word, spelled(value->second)));
        else
            add_settings(reading, word, seen, settings);
    }
}

}  // namespace

std::string layers_of_other_kind(const Reading& reading, const Occurrences& stored, const Places& model) {
    std::map<std::string, std::set<Place>> places;
    std::set<int> layers;
    for (const auto& [name, occurrence] : stored) {
        places[name] = occurrence.places;
        for (const Place& place : occurrence.places) layers.insert(place.layer);
    }
    std::map<std::pair<std::string, std::string>, std::vector<Index>> found;  // layers by tensor stored and asked for
    for (const int layer : layers) {
        const auto more = only_there(*reading.family, places, model, layer);
        const auto lacks = only_there(*reading.family, model, places, layer);
        if (layer >= 0 && !more.empty() && !lacks.empty()) found[{more[0], lacks[0]}].push_back(layer);
    }
    if (found.empty()) return "";
    const auto& [tensors, where] = *found.begin();
    std::set<std::string> seen, settings;
    add_settings(reading, tensors.second, seen, settings);
    return fmt::format("{}: '{}' is stored, but config.json asks for '{}'{}", layers_text(where), tensors.first,
                       tensors.second, settings.empty() ? "" : fmt::format(" ({})", fmt::join(settings, ", ")));
}

}  // namespace tpx::formats
