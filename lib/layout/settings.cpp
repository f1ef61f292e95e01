// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/express.hpp"

#include <fmt/ranges.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tpx {

namespace {

/// The layers in which each canonical tensor is stored.
std::map<std::string, std::set<int>> layers_of_tensors(const Expressed& expressed, int count) {
    std::map<std::string, std::set<int>> layers;
    const Reading& reading = expressed.reading;
    for (const Meaning& meaning : reading.meanings) {
        if (meaning.kind != Meaning::Kind::parameter) continue;
        for (const std::string& part : meaning.rule->expression.parts) {
            std::set<int>& found = layers[part];
            if (meaning.indices.layer) found.insert(*meaning.indices.layer);
            for (int l = 0; is_axis(*reading.family, meaning, 'l') && l < count; ++l) found.insert(l);
        }
    }
    return layers;
}

/// What formulas may ask of the tensors that are stored.
void add_tensors(Config& known, const Expressed& expressed, int count) {
    for (const auto& [name, layers] : layers_of_tensors(expressed, count)) {
        std::vector<int> flags;
        std::vector<int> without;
        for (int l = 0; l < count; ++l) {
            flags.push_back(layers.contains(l) ? 1 : 0);
            if (!layers.contains(l)) without.push_back(l);
        }
        known["has_" + name] = true;
        known["first_" + name] = std::int64_t{layers.empty() ? 0 : *layers.begin()};
        known["flags_" + name] = fmt::format("{}", fmt::join(flags, ","));
        known["without_" + name] = fmt::format("{}", fmt::join(without, ","));
    }
}

}  // namespace

std::vector<ConfigSetting> configuration_for(const Expressed& expressed, const std::string& dialect,
                                             const Config& config) {
    const Reading& reading = expressed.reading;
    const auto entries = reading.family->config.find(dialect);
    if (entries == reading.family->config.end()) return {};
    Config known = config;
    const int count = layers(reading, expressed.tensors);
    add_tensors(known, expressed, count);
    known["tied"] = reading.tied || !known.contains("has_head");
    Dims dims = reading.dims;
    dims.set('l', count);
    std::vector<ConfigSetting> settings;
    for (const ConfigEntry& entry : entries->second) {
        if (auto value = dims.value(entry.formula, known))
            settings.push_back({entry.key, std::move(*value), entry.list});
    }
    return settings;
}

}  // namespace tpx
