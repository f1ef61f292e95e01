// SPDX-License-Identifier: Apache-2.0
#include "formats/values/config_values.hpp"

#include "formats/settings/bare_floats.hpp"
#include "formats/state/value_text.hpp"
#include "formats/values/flat_values.hpp"
#include "lib/core/error.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>

namespace tpx::formats {
namespace {

using Json = nlohmann::json;

constexpr auto writer_keys =
    std::to_array<std::string_view>({"_attn_implementation", "_attn_implementation_autoset", "_commit_hash",
                                     "_name_or_path", "dtype", "torch_dtype", "transformers_version"});

void add(const std::string& path, const Json& json, std::map<std::string, std::string>& values) {
    if (!json.is_object() || json.empty()) {
        values[path] = json.dump(-1, ' ', false, Json::error_handler_t::replace);
        return;
    }
    for (const auto& [key, value] : json.items()) {
        if (std::ranges::find(writer_keys, key) == writer_keys.end())
            add(fmt::format("{}.{}", path, key), value, values);
    }
}

/// Also splits lists with nested values, such as layers.
void add_keras(const std::string& path, const Json& json, std::map<std::string, std::string>& values) {
    const bool has_parts = std::ranges::any_of(json, [](const Json& item) { return item.is_structured(); });
    if (json.is_array() && has_parts) {
        for (std::size_t k = 0; k < json.size(); ++k) add_keras(fmt::format("{}.{}", path, k), json[k], values);
    } else if (json.is_object() && !json.empty()) {
        for (const auto& [key, value] : json.items()) add_keras(fmt::format("{}.{}", path, key), value, values);
    } else {
        values[path] = json.dump(-1, ' ', false, Json::error_handler_t::replace);
    }
}

}  // namespace

std::map<std::string, std::string> keras_values(const std::string& model_config, const std::string& training_config) {
    std::map<std::string, std::string> values;
    try {
        add_keras("config", Json::parse(model_config), values);
        if (!training_config.empty()) add_keras("config.training", Json::parse(training_config), values);
    } catch (const Json::exception& mistake) {
        throw failure("the model's configuration: {}", mistake.what());
    }
    return values;
}

std::map<std::string, std::string> config_values(const std::string& config_json) {
    std::map<std::string, std::string> values;
    if (config_json.empty()) return values;
    try {
        std::string text = config_json;
        for (std::size_t at = 0; (at = text.find(bare_float_key, at)) != text.npos;)
            text.replace(at, bare_float_key.size(), float_key);
        add("config", Json::parse(text), values);
    } catch (const Json::exception& mistake) {
        throw failure("config.json: {}", mistake.what());
    }
    return values;
}

}  // namespace tpx::formats
