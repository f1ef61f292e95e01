// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/express.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tpx {

namespace {

/// The layers in which each canonical tensor is stored.
std::map<std::string, std::set<int>> layers_of_tensors(const ExpressedState& expressed, int count) {
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

/// The items of the list `layer_types`.
std::vector<std::string> layer_types(const Config& known) {
    const auto found = known.find("layer_types");
    const auto* list = found == known.end() ? nullptr : std::get_if<std::string>(&found->second);
    if (!list || list->empty()) return {};
    std::vector<std::string> words(1);
    for (const char c : *list) {
        if (c == ',')
            words.emplace_back();
        else
            words.back() += c;
    }
    return words;
}

/// Adds, for each word of `layer_types`, flags that mark the layers of that kind.
void add_layer_types(Config& known) {
    const std::vector<std::string> words = layer_types(known);
    const std::set<std::string> kinds{words.begin(), words.end()};
    for (const std::string& kind : kinds) {
        std::vector<int> flags;
        for (const std::string& word : words) flags.push_back(word == kind ? 1 : 0);
        known["flags_" + kind] = fmt::format("{}", fmt::join(flags, ","));
    }
}

/// Adds, for each word of `layer_types`, the sizes of factors that vary in the first layer of that kind.
void add_sizes_by_layer_type(Config& known, const Reading& reading) {
    const std::vector<std::string> words = layer_types(known);
    std::set<std::string_view> seen;
    for (std::size_t layer = 0; layer < words.size(); ++layer) {
        if (!seen.insert(words[layer]).second) continue;
        const Dims sizes = sizes_in_layer(reading, static_cast<int>(layer));
        for (const auto& [letter, size] : sizes.known())
            if (reading.family->varies(letter)) known.emplace(fmt::format("{}_{}", letter, words[layer]), size);
    }
}

/// Adds the keys about stored tensors that formulas may contain.
void add_tensors(Config& known, const ExpressedState& expressed, int count) {
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

Config with_tensor_keys(const ExpressedState& expressed, const Config& config) {
    const Reading& reading = expressed.reading;
    Config known = config;
    add_tensors(known, expressed, layers(reading, expressed.tensors));
    add_layer_types(known);
    if (reading.family->has_varying_sizes()) add_sizes_by_layer_type(known, reading);
    known["tied"] = reading.tied || !known.contains("has_head");
    return known;
}

std::vector<ConfigSetting> configuration_for(const ExpressedState& expressed, const std::string& dialect,
                                             const Config& config) {
    const Reading& reading = expressed.reading;
    const auto entries = reading.family->config.find(dialect);
    if (entries == reading.family->config.end()) return {};
    const int count = layers(reading, expressed.tensors);
    const Config known = with_tensor_keys(expressed, config);
    Dims dims = reading.dims;
    dims.set('l', count);
    std::vector<ConfigSetting> settings;
    for (const ConfigEntry& entry : entries->second) {
        auto value = dims.value(entry.formula, known);
        if (!value) continue;
        for (const std::string& formula : entry.more)
            value = fmt::format("{},{}", value_text(*value), value_text(dims.value(formula, known).value_or(nullptr)));
        settings.push_back({entry.key, std::move(*value), entry.list, !entry.more.empty()});
    }
    return settings;
}

}  // namespace tpx
