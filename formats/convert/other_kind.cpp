// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/other_kind.hpp"

#include "formats/convert/numbered_layers.hpp"
#include "lib/layout/condition.hpp"
#include "lib/layout/dims.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx::formats {
namespace {

/// The tensor that a layer has according to config.json, and the tensor that the checkpoint stores instead.
using Difference = std::pair<std::string, std::string>;

/// The names of optional tensors that are in `layer` of `there` and not in that of `here`.
std::vector<std::string> only_there(const Family& family, const Places& there, const Places& here, int layer) {
    std::vector<std::string> names;
    for (const auto& [name, places] : there)
        if (family.tensor(name).optional && has_layer(places, layer) &&
            !(here.contains(name) && has_layer(here.at(name), layer)))
            names.push_back(name);
    return names;
}

/// The alternatives of a condition: what `|` separates outside parentheses.
std::vector<std::string> alternatives_of(std::string_view condition) {
    std::vector<std::string> found{""};
    int depth = 0;
    for (const char c : condition) {
        depth += c == '(' ? 1 : c == ')' ? -1 : 0;
        if (c == '|' && depth == 0)
            found.emplace_back();
        else
            found.back() += c;
    }
    return found;
}

/// Finds the settings that say whether a model has a tensor in a layer.
class DecidingSettings {
public:
    DecidingSettings(const Reading& reading, const Places& model, Index layer)
        : reading_{reading}, model_{model}, layer_{layer} {}

    /// Those that the first known alternative of the condition for tensor `name` depends on, each as "KEY = VALUE", or
    /// as KEY if it is a list.
    std::set<std::string> of(const std::string& name) {
        add(name);
        return std::move(settings_);
    }

private:
    void add(const std::string& name) {
        const auto conditions = reading_.family->present.find(name);
        if (conditions == reading_.family->present.end() || !seen_.insert(name).second) return;
        const std::string* condition = formula_for(conditions->second, reading_.dialect->name);
        for (const std::string& alternative : alternatives_of(condition ? *condition : "")) {
            const auto lookup = [&](std::string_view word) { return value_of(word); };
            if (alternative.empty() || !evaluate_condition(alternative, lookup, reading_.lists)) continue;
            add_words(alternative + " ");
            return;
        }
    }

    void add_words(const std::string& text) {
        for (std::size_t begin = 0, k = 0; k < text.size(); ++k) {
            if (std::isalnum(static_cast<unsigned char>(text[k])) || text[k] == '_' || text[k] == '.') continue;
            const std::string word = text.substr(begin, k - begin);
            begin = k + 1;
            const auto value = reading_.config.find(word);
            if (value != reading_.config.end())
                settings_.insert(reading_.lists.find(word) ? word
                                                           : fmt::format("{} = {}", word, spelled(value->second)));
            else
                add(word);
        }
    }

    std::optional<ConfigValue> value_of(std::string_view word) const {
        if (word == "l") return layer_;
        if (word.size() == 1) {  // a size or, like q, a tensor
            if (const auto size = reading_.dims[word[0]]) return *size;
        }
        if (reading_.family->tensors.contains(word)) {
            const auto places = model_.find(word);
            return places != model_.end() && has_layer(places->second, layer_);
        }
        const auto found = reading_.config.find(word);
        if (found == reading_.config.end()) return std::nullopt;
        return found->second;
    }

    const Reading& reading_;
    const Places& model_;
    Index layer_;
    std::set<std::string> seen_, settings_;
};

/// "layers 0, 2", up to five of them.
std::string some_layers(const std::vector<Index>& layers) {
    const std::size_t most = 5;
    if (layers.size() <= most) return layers_text(layers);
    return fmt::format("{} and {} more", layers_text({layers.begin(), layers.begin() + most}), layers.size() - most);
}

}  // namespace

std::string layers_of_other_kind(const Reading& reading, const Occurrences& stored, const Places& model) {
    const Places places = places_of(stored);
    std::set<int> layers;
    for (const auto& [name, where] : places)
        for (const Place& place : where) layers.insert(place.layer);
    std::vector<std::pair<Difference, std::vector<Index>>> found;  // by their first layer
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
        const auto settings = DecidingSettings{reading, model, where[0]}.of(described);
        lines.push_back(fmt::format(
            "{}: config.json{} describes '{}', but the checkpoint stores '{}'", some_layers(where),
            settings.empty() ? "" : fmt::format(" ({})", fmt::join(settings, ", ")), described, stored_instead));
    }
    return fmt::format("{}", fmt::join(lines, "; "));
}

}  // namespace tpx::formats
