// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/express.hpp"

#include <string>
#include <utility>
#include <variant>

namespace tpx {

std::vector<ConfigSetting> configuration_for(const Expressed& expressed, const std::string& dialect,
                                             const Config& config) {
    const Reading& reading = expressed.reading;
    const auto entries = reading.family->config.find(dialect);
    if (entries == reading.family->config.end()) return {};
    Config known = config;
    for (const Meaning& meaning : reading.meanings) {
        if (meaning.kind != Meaning::Kind::parameter) continue;
        for (const std::string& part : meaning.rule->expression.parts) {
            const std::int64_t layer = meaning.indices.layer.value_or(0);
            known["has_" + part] = true;
            const auto first = known.try_emplace("first_" + part, layer).first;
            if (layer < std::get<std::int64_t>(first->second)) first->second = layer;
        }
    }
    known["tied"] = reading.tied || !known.contains("has_head");
    Dims dims = reading.dims;
    dims.set('l', layers(reading, expressed.tensors));
    std::vector<ConfigSetting> settings;
    for (const ConfigEntry& entry : entries->second) {
        if (auto value = dims.value(entry.formula, known))
            settings.push_back({entry.key, std::move(*value), entry.list});
    }
    return settings;
}

}  // namespace tpx
