// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/keras_model.hpp"
#include "formats/settings/keras_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>

namespace tpx::formats::hdf5 {
namespace {

using nlohmann::json;

bool is_upper(char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; }
bool is_lower(char c) { return std::islower(static_cast<unsigned char>(c)) != 0; }

/// A class name as Keras writes it in paths: "MultiHeadAttention" becomes "multi_head_attention", "LSTM" becomes
/// "lstm".
std::string snake_case(std::string_view name) {
    std::string out;
    for (std::size_t k = 0; k < name.size(); ++k) {
        const bool starts_word = k > 0 && is_upper(name[k]) && k + 1 < name.size() && is_lower(name[k + 1]);
        const bool after_lower = k > 0 && is_upper(name[k]) && is_lower(name[k - 1]);
        if (starts_word || after_lower) out += '_';
        out += static_cast<char>(std::tolower(static_cast<unsigned char>(name[k])));
    }
    return out;
}

class LayerWalker {
public:
    std::vector<KerasLayer> layers;

    /// Adds the layers below `model`, which must have a list of layers.
    void walk(const json& model, const std::string& path, const std::vector<std::string>& names, int depth) {
        if (depth > deepest_layer) return;
        KerasNumbering numbering;
        for (const json& layer : model.at("layers")) {
            if (!is_keras_layer(layer)) continue;
            const std::string name = numbering.next(keras_text(layer, "class_name"));
            add(layer, fmt::format("{}layers/{}", path.empty() ? "" : path + "/", name), names, depth);
        }
    }

private:
    void add(const json& layer, const std::string& path, std::vector<std::string> names, int depth) {
        const json& config = layer["config"];
        names.push_back(keras_layer_name(layer));
        const std::string kind = keras_text(layer, "class_name");
        // Some classes omit their layers' names.
        if (names.back().empty()) return;
        layers.push_back({path, names, kind});
        if (depth > deepest_layer) return;
        if (config.contains("layers") && config["layers"].is_array()) return walk(config, path, names, depth + 1);
        const auto inner = config.find("layer");
        if (inner == config.end() || !is_keras_layer(*inner)) return;
        if (kind != "Bidirectional") return add(*inner, path + "/layer", names, depth + 1);
        add(*inner, path + "/forward_layer", names, depth + 1);
        add(backward_of(*inner), path + "/backward_layer", names, depth + 1);
    }
};

std::vector<std::string> split(std::string_view path) {
    std::vector<std::string> parts;
    while (!path.empty()) {
        const std::size_t slash = path.find('/');
        parts.emplace_back(path.substr(0, slash));
        path = slash == path.npos ? "" : path.substr(slash + 1);
    }
    return parts;
}

/// The attribute of a layer of class `kind` that contains the part of this name; empty if unknown.
std::string part_of(std::string_view kind, std::string_view part) {
    constexpr std::array recurrent{"LSTM", "GRU", "SimpleRNN", "RNN", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"};
    if (std::ranges::find(recurrent, kind) != recurrent.end()) return "cell";
    if (kind != "MultiHeadAttention") return "";
    if (part == "attention_output") return "output_dense";
    return part == "query" || part == "key" || part == "value" ? fmt::format("{}_dense", part) : "";
}

KerasPlace place_in(const KerasLayer& layer, std::span<const std::string> parts) {
    KerasPlace place{fmt::format("{}", fmt::join(layer.names, "/")), layer.path};
    for (const std::string& part : parts) place.chain += "/" + part;
    if (parts.empty()) return place;
    const std::string attribute = parts.size() == 1 ? part_of(layer.kind, parts[0]) : "";
    place.path = attribute.empty() ? "" : place.path + "/" + attribute;
    return place;
}

}  // namespace

std::string keras_text(const json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

std::string KerasNumbering::next(std::string_view kind) {
    std::string name = snake_case(keras_own_class(kind));
    if (const int again = used_[name]++; again > 0) name += fmt::format("_{}", again);
    return name;
}

bool is_keras_layer(const json& entry) {
    // Legacy files do not record modules, but no operation has the name of a layer class with variables.
    return entry.is_object() && !keras_text(entry, "class_name").empty() && entry.contains("config") &&
           entry["config"].is_object() && !keras_text(entry, "module").starts_with("keras.src.ops");
}

std::string keras_layer_name(const json& entry) {
    const std::string name = keras_text(entry["config"], "name");
    return name.empty() ? keras_text(entry, "name") : name;
}

json backward_of(const json& layer) {
    json backward = layer;
    std::string name = keras_text(backward["config"], "name");
    if (name.starts_with("forward_")) name = name.substr(8);
    backward["config"]["name"] = "backward_" + name;
    return backward;
}

std::vector<KerasLayer> keras_layers(std::string_view model_config) {
    const json model = json::parse(model_config, nullptr, false);
    if (!model.is_object() || !model.contains("config") || !model["config"].is_object()) return {};
    const json& config = model["config"];
    if (!config.contains("layers") || !config["layers"].is_array()) return {};
    LayerWalker walker;
    walker.walk(config, "", {}, 0);
    return std::move(walker.layers);
}

std::optional<KerasPlace> place_of(std::span<const KerasLayer> layers, std::string_view layer,
                                   std::string_view directory) {
    std::vector<std::string> parts = split(directory);
    if (parts.empty()) parts.emplace_back(layer);
    for (std::size_t k = parts.size(); k-- > 0;) {
        const KerasLayer* found = nullptr;
        for (const KerasLayer& one : layers) {
            if (one.names.front() != layer || one.names.back() != parts[k]) continue;
            if (found != nullptr) return std::nullopt;
            found = &one;
        }
        if (found != nullptr) return place_in(*found, std::span{parts}.subspan(k + 1));
    }
    return std::nullopt;
}

}  // namespace tpx::formats::hdf5
