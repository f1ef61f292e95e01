// SPDX-License-Identifier: Apache-2.0
#include "formats/settings/keras_config.hpp"

#include "lib/core/error.hpp"

#include <nlohmann/json.hpp>

namespace tpx::formats::hdf5 {
namespace {

using Json = nlohmann::ordered_json;

bool is_text(const Json& object, const char* key) { return object.contains(key) && object[key].is_string(); }

/// The name under which the class was registered, or else its own name.
std::string class_of(const Json& object) {
    const char* key = is_text(object, "registered_name") ? "registered_name" : "class_name";
    return is_text(object, key) ? std::string{keras_own_class(object[key].get<std::string>())} : "";
}

constexpr int deepest_config = 500;

Json old_form(const Json& value, int depth);

/// The legacy form of an entry in a model's list of layers. There is none for operations on tensors, but Keras reads
/// their Keras 3 form in its place.
Json old_layer(const Json& layer, int depth) {
    Json old = old_form(layer, depth);
    const bool is_operation =
        is_text(layer, "module") && layer["module"].get<std::string>().starts_with("keras.src.ops");
    if (!old.is_object() || is_operation) return old;
    old["class_name"] = class_of(layer);
    for (const char* key : {"module", "registered_name", "build_config", "compile_config"}) old.erase(key);
    return old;
}

Json old_form(const Json& value, int depth) {
    if (depth > deepest_config)
        throw failure("the model's configuration is nested more than {} levels deep", deepest_config);
    if (value.is_array()) {
        Json old = Json::array();
        for (const Json& item : value) old.push_back(old_form(item, depth + 1));
        return old;
    }
    if (!value.is_object()) return value;
    Json old = Json::object();
    for (const auto& [key, item] : value.items()) {
        if (key == "shared_object_id") continue;
        if (key != "layers" || !item.is_array()) {
            old[key] = old_form(item, depth + 1);
            continue;
        }
        old[key] = Json::array();
        for (const Json& layer : item) old[key].push_back(old_layer(layer, depth + 1));
    }
    return old;
}

/// The legacy form of a loss, a metric, or a container of them.
Json old_argument(const Json& value, int depth) {
    if (depth > deepest_config)
        throw failure("the model's compile configuration is nested more than {} levels deep", deepest_config);
    if (value.is_object() && is_text(value, "class_name") && value.contains("config")) {
        // Functions are known by their names.
        if (value["class_name"] == "function" && value["config"].is_string()) return value["config"];
        return {{"class_name", class_of(value)}, {"config", old_form(value["config"], depth + 1)}};
    }
    if (!value.is_structured()) return value;
    Json old = value;
    for (Json& item : old) item = old_argument(item, depth + 1);
    return old;
}

}  // namespace

std::string_view keras_own_class(std::string_view kind) {
    return kind == "GroupQueryAttention" ? "GroupedQueryAttention" : kind;
}

bool is_keras_config(std::string_view text) {
    const Json config = Json::parse(text, nullptr, false);
    return config.is_object() && is_text(config, "class_name") && config.contains("config") &&
           config["config"].is_object();
}

std::string legacy_model_config(std::string_view config) {
    const Json model = Json::parse(config);
    return Json{{"class_name", class_of(model)}, {"config", old_form(model["config"], 0)}}.dump();
}

std::string legacy_training_config(std::string_view config) {
    const Json model = Json::parse(config);
    const auto compiled = model.find("compile_config");
    if (compiled == model.end() || !compiled->is_object() || !compiled->contains("optimizer")) return "";
    const Json& optimizer = (*compiled)["optimizer"];
    if (!optimizer.is_object() || !optimizer.contains("config")) return "";
    Json old = Json::object();
    for (const auto& [key, value] : compiled->items()) {
        if (key != "optimizer") old[key] = old_argument(value, 0);
    }
    old["optimizer_config"] = {{"class_name", class_of(optimizer)}, {"config", old_form(optimizer["config"], 0)}};
    return old.dump();
}

}  // namespace tpx::formats::hdf5
