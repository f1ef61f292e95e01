// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The layers in the configuration of a legacy Keras whole model: how they are nested, and so their paths in Keras 3
/// files, which name layers by class.
namespace tpx::formats::hdf5 {

struct KerasLayer {
    std::string path;                ///< in Keras 3 weights: "layers/sequential/layers/dense_1"
    std::vector<std::string> names;  ///< of the layers that contain it, and its own
    std::string kind;                ///< class
};

/// The maximum nesting depth of layers.
constexpr int deepest_layer = 64;

/// The text that a JSON object has under `key`; empty if it has none.
std::string keras_text(const nlohmann::json& object, const char* key);

/// Names a container's layers as Keras 3 weights do: by class, with a number from the second layer of a class on.
class KerasNumbering {
public:
    std::string next(std::string_view kind);

private:
    std::map<std::string, int> used_;
};

/// Whether an entry of a model's list of layers is a layer. The list may also contain operations on tensors.
bool is_keras_layer(const nlohmann::json& entry);

/// The name of a layer, an entry of such a list; empty if its class does not record one.
std::string keras_layer_name(const nlohmann::json& entry);

/// The configuration of the backward layer that class Bidirectional creates from `layer`.
nlohmann::json backward_of(const nlohmann::json& layer);

/// The layers of a functional or sequential model, parents first; empty for other models.
std::vector<KerasLayer> keras_layers(std::string_view model_config);

/// The layer to which a variable belongs.
struct KerasPlace {
    std::string chain;  ///< names of the layers that contain the variable, joined with slashes
    std::string path;   ///< in Keras 3 weights; empty if the position in its class is unknown
};

/// The layer of a variable in `directory` of group `layer` in a legacy file. Uses the last name in `directory` that is
/// the name of a layer in the group, because names of containing layers may be missing from the variable's name. Unset
/// if there is no such layer, or more than one.
std::optional<KerasPlace> place_of(std::span<const KerasLayer> layers, std::string_view layer,
                                   std::string_view directory);

}  // namespace tpx::formats::hdf5
