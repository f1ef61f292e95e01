// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/config_mismatch.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/condition.hpp"
#include "lib/layout/deciding_settings.hpp"
#include "lib/layout/model_state.hpp"
#include "lib/layout/places.hpp"
#include "lib/layout/states.hpp"
#include "lib/layout/stored_name.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace tpx {
namespace {

constexpr const char* framework = "hf";

/// What `a` has and `b` lacks: "'NAME' and 3 more", then in parentheses the settings of `written` that decide about the
/// first one; empty if there is nothing.
std::string first_beyond(const Reading& written, const Places& model, const Places& a, const Places& b) {
    std::optional<std::pair<std::string, Place>> first;
    std::size_t count = 0;
    for (const auto& [name, places] : a) {
        const auto other = b.find(name);
        for (const Place place : places) {
            if (other != b.end() && other->second.contains(place)) continue;
            if (count++ == 0) first = {name, place};
        }
    }
    if (!first) return "";
    const auto settings = deciding_settings(written, model, first->second.layer, first->first);
    return fmt::format("'{}'{}{}", stored_name(written, first->first, indices_of(first->second)),
                       count == 1 ? "" : fmt::format(" and {} more", count - 1),
                       settings.empty() ? "" : fmt::format(" ({})", fmt::join(settings, ", ")));
}

/// A size that differs between the written configuration and the tensors.
std::string other_size(const ExpressedState& expressed, const Config& written) {
    const Family& family = *expressed.reading.family;
    const Dims written_sizes{family, framework, written};
    std::set<char> used;
    for (const auto& [name, occurrence] : occurrences_of(expressed.reading, expressed.tensors, Role::weight))
        for (const Axis& axis : family.tensor(name).axes)
            for (const Token token : axis) used.insert(token.letter);
    used.erase('l');
    std::string found;
    for (const auto& [letter, formulas] : family.dims) {
        const auto has = expressed.reading.dims[letter];
        const auto says = written_sizes[letter];
        if (!used.contains(letter) || !has || !says || *has == *says) continue;
        const auto formula = formulas.find(framework);
        const bool derived = formula == formulas.end();
        if (derived && !found.empty()) continue;
        found = fmt::format("{} is {} in config.json, and {} in the tensors",
                            derived ? formulas.begin()->second : formula->second, *says, *has);
        if (!derived) break;
    }
    return found;
}

/// The first setting of the source that the framework cannot follow.
std::string refused_setting(const ExpressedState& expressed, const Config& config, const Config& written) {
    const auto limits = expressed.reading.family->limits.find(framework);
    if (limits == expressed.reading.family->limits.end()) return "";
    Config known = with_tensor_keys(expressed, config);
    if (const auto type = written.find("model_type"); type != written.end()) known["model_type"] = type->second;
    const auto lookup = [&](std::string_view word) -> std::optional<ConfigValue> {
        const auto found = known.find(word);
        return found == known.end() ? std::nullopt : std::optional{found->second};
    };
    for (const auto& [setting, limit] : limits->second) {
        if (evaluate_condition(limit.condition, lookup).value_or(true)) continue;
        const auto value = known.find(setting);
        return fmt::format("{}{}: {} (--set {}={} ignores that)", setting,
                           value == known.end() ? "" : fmt::format(" = {}", value_text(value->second)), limit.reason,
                           setting, limit.value);
    }
    return "";
}

}  // namespace

std::string config_mismatch(const ExpressedState& expressed, const Config& config, const Config& written) {
    if (std::string setting = refused_setting(expressed, config, written); !setting.empty()) return setting;
    if (std::string size = other_size(expressed, written); !size.empty()) return size;
    const Family& family = *expressed.reading.family;
    // The sizes of such a model are unknown without its tensors, so it cannot be built from its configuration.
    if (has_sizes_of_shapes(family, framework)) return "";
    const ModelState written_model = model_of(*expressed.reading.family, framework, written, {});
    // transformers ignores layers for multi-token prediction.
    const Places model = places_of(written_model, written_model.layers);
    Places stored = places_of(occurrences_of(expressed.reading, expressed.tensors, Role::weight));
    std::erase_if(stored, [&](const auto& entry) { return family.tensor(entry.first).outer; });
    if (const auto main = expressed.reading.dims['L'])
        for (auto& [name, places] : stored) std::erase_if(places, [&](Place place) { return place.layer >= *main; });
    Reading reading = expressed.reading;
    reading.config = written;
    reading.lists = ListItems{written};
    if (const std::string lacks = first_beyond(reading, model, model, stored); !lacks.empty())
        return fmt::format("it needs {}, which the checkpoint lacks", lacks);
    if (const std::string more = first_beyond(reading, model, stored, model); !more.empty())
        return fmt::format("it has no place for {}", more);
    return "";
}

std::vector<std::pair<std::string, std::string>> missing_settings(const ExpressedState& expressed,
                                                                  const Config& written) {
    std::vector<std::pair<std::string, std::string>> missing;
    const auto& needed = expressed.reading.family->needed;
    const auto keys = needed.find(framework);
    if (keys == needed.end()) return missing;
    for (const auto& [key, assumed] : keys->second)
        if (!written.contains(key)) missing.emplace_back(key, assumed);
    return missing;
}

}  // namespace tpx
