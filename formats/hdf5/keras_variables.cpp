// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/keras_variables.hpp"

#include "formats/hdf5/keras.hpp"
#include "formats/hdf5/keras_classes.hpp"
#include "formats/hdf5/keras_model.hpp"
#include "lib/core/error.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace tpx::formats::hdf5 {
namespace {

using nlohmann::json;

bool holds(const json& object, const char* key, bool otherwise) {
    const auto found = object.find(key);
    return found != object.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

/// The class of a layer; empty if it is not one of Keras' own.
std::string own_class(const json& entry) {
    const bool is_foreign = entry.contains("module") && keras_text(entry, "module") != "keras" &&
                            !keras_text(entry, "module").starts_with("keras.");
    return is_foreign ? "" : keras_text(entry, "class_name");
}

/// "LAYER" for "LAYER/vars/0"; empty for "vars/0", which belongs to the model itself.
std::string layer_of(const std::string& path) {
    const auto at = path.rfind("/vars/");
    return at == path.npos ? "" : path.substr(0, at);
}

class VariableWalker {
public:
    explicit VariableWalker(const Tree& tree) {
        for (const GroupFacts& group : tree.groups) {
            if (!group.path.ends_with("/vars")) continue;
            const std::string* name = text_of(group.attributes, "name");
            names_[group.path.substr(0, group.path.size() - 5)] = name == nullptr ? "" : *name;
        }
        for (const auto& [tensor, origin] : tree.datasets) {
            if (origin.path.starts_with("optimizer/") || is_keras_seed(tensor)) continue;
            left_.insert(origin.path);
            ++counts_[layer_of(origin.path)];
        }
        names_all_ = std::ranges::any_of(names_, [&](const auto& entry) {
            return !entry.second.empty() && !counts_.contains(entry.first) && !entry.first.starts_with("optimizer");
        });
    }

    std::vector<KerasVariables> walk(const json& model) {
        std::vector<KerasVariables> layers;
        KerasNumbering numbering;
        for (const json& entry : model["config"]["layers"]) {
            if (!is_keras_layer(entry)) continue;
            const std::string path = "layers/" + numbering.next(keras_text(entry, "class_name"));
            // Legacy files omit the input layer of sequential models.
            if (keras_text(entry, "class_name") == "InputLayer" && keras_text(model, "class_name") == "Sequential")
                continue;
            variables_.clear();
            add(entry, path, {}, 0);
            std::ranges::stable_partition(variables_, &KerasVariable::trainable);
            layers.push_back({name_of(path, entry), variables_});
        }
        if (!left_.empty()) refuse(*left_.begin());
        return layers;
    }

private:
    std::string name_of(const std::string& path, const json& entry) const {
        const auto named = names_.find(path);
        return named == names_.end() || named->second.empty() ? keras_layer_name(entry) : named->second;
    }

    void add(const json& entry, const std::string& path, std::vector<std::string> above, int depth) {
        if (depth > deepest_layer) throw failure("layers are nested more than {} deep", deepest_layer);
        const json& config = entry["config"];
        const std::string kind = own_class(entry);
        const auto named = names_.find(path);
        above.push_back(name_of(path, entry));
        visited_[path] =
            fmt::format("layer '{}' (of class {})", fmt::join(above, "/"), keras_text(entry, "class_name"));
        if (named == names_.end() && must_be_there(entry, kind))
            throw failure(
                "layer '{}' shares its variables with another model in this one; keras-legacy stores them twice, which "
                "tpx does not support",
                fmt::join(above, "/"));
        add_own(config, kind, path, above);
        add_parts(config, kind, path, above, depth + 1);
    }

    /// Whether a layer without a group must have variables, which it then shares with an earlier layer.
    bool must_be_there(const json& entry, const std::string& kind) const {
        if (kind == "InputLayer") return false;
        return names_all_ || kind.empty() || always_has_variables(kind, entry["config"]);
    }

    void add_own(const json& config, const std::string& kind, const std::string& path,
                 const std::vector<std::string>& names) {
        const auto count = counts_.find(path);
        if (count == counts_.end()) return;
        const auto own = class_variables(kind, config, count->second);
        if (!own) return;
        const bool trainable = holds(config, "trainable", true);
        for (std::size_t k = 0; k < own->size(); ++k) {
            const std::string dataset = fmt::format("{}/vars/{}", path, k);
            if (left_.erase(dataset) == 0) refuse(path + "/vars/");
            variables_.push_back({dataset, fmt::format("{}/{}", fmt::join(names, "/"), (*own)[k].name),
                                  trainable && (*own)[k].trainable});
        }
    }

    /// Adds the variables of a layer's parts in the layer's order, which differs from the order of names in the file.
    void add_parts(const json& config, const std::string& kind, const std::string& path,
                   const std::vector<std::string>& names, int depth) {
        const auto add_one = [&](const char* key, const std::string& attribute) {
            if (config.contains(key) && is_keras_layer(config[key]))
                add(config[key], path + "/" + attribute, names, depth);
        };
        const auto add_list = [&](const char* key) {
            if (!config.contains(key) || !config[key].is_array()) return;
            KerasNumbering numbering;
            for (const json& entry : config[key]) {
                if (!is_keras_layer(entry)) continue;
                const std::string name = numbering.next(keras_text(entry, "class_name"));
                add(entry, fmt::format("{}/{}/{}", path, key, name), names, depth);
            }
        };
        for (const ClassPart& part : class_parts(kind)) {
            std::string at = fmt::format("{}/{}", path, part.attribute);
            if (!names_.contains(at)) at = fmt::format("{}/_{}", path, part.attribute);
            if (!names_.contains(at)) continue;
            add({{"class_name", part.kind}, {"config", config}}, at, names, depth);
        }
        if (kind == "StackedRNNCells") add_list("cells");
        if (kind == "RNN") add_one("cell", "cell");
        if (kind == "TimeDistributed") add_one("layer", "layer");
        if (kind == "Bidirectional") {
            add_one("layer", "forward_layer");
            add_one("backward_layer", "backward_layer");
            if (!config.contains("backward_layer") && config.contains("layer") && is_keras_layer(config["layer"]))
                add(backward_of(config["layer"]), path + "/backward_layer", names, depth);
        }
        if (kind == "Functional" || kind == "Sequential" || kind == "Model") add_list("layers");
    }

    [[noreturn]] void refuse(const std::string& path) const {
        std::string what = "the model itself";
        for (const auto& [layer, words] : visited_) {
            // Outer layers come before inner ones.
            if (path.starts_with(layer + "/")) what = words;
        }
        throw failure(
            "{}: the order of its variables is unknown, because it is not one of Keras' own classes or was changed; "
            "pass --config MODEL.h5, the same model saved whole as keras-legacy",
            what);
    }

    std::map<std::string, std::string> names_;    // by layer
    std::map<std::string, std::size_t> counts_;   // of variables, by layer
    std::set<std::string> left_;                  // datasets without a layer so far
    std::map<std::string, std::string> visited_;  // descriptions of layers for messages
    bool names_all_ = false;                      // whether layers without variables also have groups
    std::vector<KerasVariable> variables_;        // of the current layer
};

std::vector<std::string> numbered(std::size_t count) {
    std::vector<std::string> names;
    for (std::size_t k = 0; k < count; ++k) names.push_back(fmt::format("variable_{}", k));
    return names;
}

}  // namespace

std::vector<KerasVariables> keras_variables(const Tree& tree, std::string_view config) {
    const json model = json::parse(config, nullptr, false);
    const bool has_layers = model.is_object() && model.contains("config") && model["config"].is_object() &&
                            model["config"].contains("layers") && model["config"]["layers"].is_array();
    if (!has_layers)
        throw failure("the model is of class {}, whose configuration lists no layers",
                      model.is_object() ? keras_text(model, "class_name") : "");
    return VariableWalker{tree}.walk(model);
}

std::vector<std::string> optimizer_names(std::string_view config, std::size_t count,
                                         const std::vector<KerasVariables>& layers) {
    const json model = json::parse(config, nullptr, false);
    const auto setting = json::json_pointer{"/compile_config/optimizer/config"};
    if (!model.is_object() || !model.contains(setting) || !model[setting].is_object()) return numbered(count);
    const json& settings = model[setting];
    const auto slots = class_slots(keras_text(model[setting.parent_pointer()], "class_name"));
    const bool has_more =
        holds(settings, "use_ema", false) || !settings.value("gradient_accumulation_steps", json{}).is_null();
    std::vector<std::string> names{"iteration", "learning_rate"};
    for (const KerasVariables& layer : layers) {
        for (const KerasVariable& variable : layer.variables) {
            std::string name = variable.name;
            std::ranges::replace(name, '/', '_');
            if (!variable.trainable) continue;
            for (const std::string_view slot : slots) names.push_back(fmt::format("{}_{}", name, slot));
        }
    }
    const bool is_known =
        !has_more && !slots.empty() && names.size() == count && settings.value("momentum", json{1.0}) != 0.0;
    return is_known ? names : numbered(count);
}

}  // namespace tpx::formats::hdf5
