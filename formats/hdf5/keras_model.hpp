// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// What the configuration in a whole model of Keras' old kind tells of its layers: which lies in which, and hence where
/// each stands in the files of version 3, which name layers by their classes.
namespace tpx::formats::hdf5 {

struct KerasLayer {
    std::string path;                ///< in version 3's weights: "layers/sequential/layers/dense_1"
    std::vector<std::string> names;  ///< of the layers that it lies in, and its own
    std::string kind;                ///< its class
};

/// How deep layers may be nested in each other.
constexpr int deepest_layer = 64;

/// The text that a JSON object has under `key`; empty when it has none.
std::string keras_text(const nlohmann::json& object, const char* key);

/// Names a container's layers as version 3's weights do: by class, with a number from the second of a class on.
class KerasNumbering {
public:
    std::string next(std::string_view kind);

private:
    std::map<std::string, int> used_;
};

/// Whether an entry of a model's list of layers is one, and not an operation on tensors, which lists have, too.
bool is_keras_layer(const nlohmann::json& entry);

/// What a layer, an entry of such a list, is called; empty when its class does not say so.
std::string keras_layer_name(const nlohmann::json& entry);

/// What a layer made backward of `layer` by the class Bidirectional is configured as.
nlohmann::json backward_of(const nlohmann::json& layer);

/// The layers of a functional or sequential model, parents first; none when `model_config` is of no such model.
std::vector<KerasLayer> keras_layers(std::string_view model_config);

/// The layer that a variable is of.
struct KerasPlace {
    std::string chain;  ///< names of layers on the way to it, with slashes
    std::string path;   ///< in version 3's weights; empty when it is not known where parts of its class stand
};

/// Where a variable stands that group `layer` of an old file has under `directory`. Layers in there are told by the
/// last name in `directory` that one of them has, since what is around it was not always known when the variable got
/// its name. Nothing when there is no such layer, or more than one.
std::optional<KerasPlace> place_of(std::span<const KerasLayer> layers, std::string_view layer,
                                   std::string_view directory);

}  // namespace tpx::formats::hdf5
