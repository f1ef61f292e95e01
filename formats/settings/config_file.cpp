// SPDX-License-Identifier: Apache-2.0
#include "formats/settings/config_file.hpp"

#include "formats/settings/bare_floats.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

namespace tpx::formats {
namespace {

ConfigValue scalar(const nlohmann::json& value) {
    using Type = nlohmann::json::value_t;
    switch (value.type()) {
        case Type::boolean:
            return value.get<bool>();
        case Type::number_integer:
            return value.get<std::int64_t>();
        case Type::number_unsigned:
            if (value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) return value.get<double>();
            return value.get<std::int64_t>();
        case Type::number_float:
            return value.get<double>();
        case Type::string:
            return value.get<std::string>();
        default:
            return nullptr;
    }
}

/// A list of whole numbers or words as text, "0,1,1"; unset for other lists, which are not settings.
template <class List, class Word>
std::optional<ConfigValue> list_text(const List& list, const Word& word) {
    std::string text;
    for (const auto& item : list) {
        const std::optional<std::string> value = word(item);
        if (!value) return std::nullopt;
        text += fmt::format("{}{}", text.empty() ? "" : ",", *value);
    }
    return text;
}

std::optional<ConfigValue> list_text(const nlohmann::json& list) {
    return list_text(list, [](const nlohmann::json& item) -> std::optional<std::string> {
        if (item.is_number_integer()) return item.dump();
        if (item.is_string()) return item.get<std::string>();
        return std::nullopt;
    });
}

/// Adds the settings of `object`, nested ones as TABLE.KEY or TABLE.TABLE.KEY, and lengths of top-level lists as
/// LIST.count. Does not overwrite settings of `config` whose keys are in `kept`.
void add_settings(Config& config, const nlohmann::json& object, std::initializer_list<std::string_view> kept) {
    for (const auto& [key, value] : object.items()) {
        if (config.contains(key) && std::ranges::find(kept, key) != kept.end()) continue;
        if (value.is_primitive()) config[key] = scalar(value);
        if (value.is_array()) {
            if (const auto items = list_text(value)) config[key] = *items;
            config[key + ".count"] = std::int64_t(value.size());
        }
        if (!value.is_object()) continue;
        for (const auto& [inner, nested] : value.items()) {
            if (nested.is_primitive()) config[key + "." + inner] = scalar(nested);
            if (nested.is_array())
                if (const auto items = list_text(nested)) config[key + "." + inner] = *items;
            if (!nested.is_object()) continue;
            for (const auto& [innermost, setting] : nested.items()) {
                if (setting.is_primitive()) config[fmt::format("{}.{}.{}", key, inner, innermost)] = scalar(setting);
            }
        }
    }
}

/// thinker_config (multimodal understanding) of an Omni model; nullptr if absent.
const nlohmann::json* thinker_settings(const nlohmann::json& object) {
    const auto thinker = object.find("thinker_config");
    return thinker != object.end() && thinker->is_object() ? &*thinker : nullptr;
}

/// The configuration of the text model inside that of a vision-language or audio model; nullptr without one.
const nlohmann::json* text_settings(const nlohmann::json& object) {
    for (const char* key : {"text_config", "llm_config", "language_config"}) {
        const auto found = object.find(key);
        if (found != object.end() && found->is_object() && !found->empty()) return &*found;
    }
    const nlohmann::json* thinker = thinker_settings(object);
    return thinker != nullptr ? text_settings(*thinker) : nullptr;
}

}  // namespace

Config parse_config_json(std::string_view text) {
    const nlohmann::json object = nlohmann::json::parse(text, nullptr, false);
    if (!object.is_object()) throw failure("not a JSON object");
    Config config;
    add_settings(config, object, {});
    // tpx needs the settings of the language model, which may be nested. tie_word_embeddings is a setting of the whole
    // model.
    const nlohmann::json* inner = text_settings(object);
    if (inner == nullptr) return config;
    if (const auto type = config.find("model_type"); type != config.end()) config["outer.model_type"] = type->second;
    const nlohmann::json* thinker = thinker_settings(object);
    if (const char* key = "tie_word_embeddings"; thinker != nullptr && thinker->contains(key) && !config.contains(key))
        config[key] = scalar(thinker->at(key));
    add_settings(config, *inner, {"architectures", "dtype", "torch_dtype", "tie_word_embeddings"});
    return config;
}

Config parse_config_toml(std::string_view text) {
    Config config;
    try {
        for (const auto& [key, node] : toml::parse(text)) {
            ConfigValue value;
            if (const auto* flag = node.as_boolean())
                value = flag->get();
            else if (const auto* number = node.as_integer())
                value = number->get();
            else if (const auto* real = node.as_floating_point())
                value = real->get();
            else if (const auto* words = node.as_string())
                value = words->get();
            else if (const auto* list = node.as_array()) {
                const auto items = list_text(*list, [](const toml::node& item) -> std::optional<std::string> {
                    if (const auto whole = item.value_exact<std::int64_t>()) return std::to_string(*whole);
                    return item.value_exact<std::string>();
                });
                if (!items) continue;
                value = *items;
            } else
                continue;
            config.emplace(key.str(), std::move(value));
        }
    } catch (const toml::parse_error& mistake) {
        throw failure("line {}: {}", mistake.source().begin.line, mistake.description());
    }
    return config;
}

bool names_model(const Config& config) {
    const auto is_text = [&](const char* key) {
        const auto found = config.find(key);
        return found != config.end() && std::holds_alternative<std::string>(found->second);
    };
    return is_text("model_type") && is_text("architectures");
}

Config read_config_file(const std::filesystem::path& file) {
    const std::string text = read_file(file, max_config_bytes);
    return in_context([&] { return file.string(); },
                      [&] {
                          return file.extension() == ".toml" ? parse_config_toml(text)
                                                             : parse_config_json(quote_bare_floats(text));
                      });
}

void add_setting(Config& config, std::string_view setting) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string_view::npos || equals == 0)
        throw Error{Exit::usage, "--set: '{}': must be KEY=VALUE", setting};
    const std::string value{setting.substr(equals + 1)};
    const nlohmann::json parsed = nlohmann::json::parse(value, nullptr, false);
    const bool plain = parsed.is_boolean() || parsed.is_number();
    config[std::string{setting.substr(0, equals)}] = plain ? scalar(parsed) : ConfigValue{value};
}

}  // namespace tpx::formats
