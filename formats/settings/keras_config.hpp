// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

/// Attributes of a legacy Keras whole-model file, derived from the configuration in a Keras 3 archive.
namespace tpx::formats::hdf5 {

/// The name of Keras class `kind` in Keras' own code, in paths, and in legacy whole-model files. It may differ from the
/// public name.
std::string_view keras_own_class(std::string_view kind);

/// Whether `text` is the configuration of a model, as in an archive or as model.to_json() returns it.
bool is_keras_config(std::string_view text);

/// The attribute model_config. Layers lose what only Keras 3 stores: where their class is defined, how they were built,
/// and which objects they share.
std::string legacy_model_config(std::string_view config);

/// The attribute training_config: loss, metrics and the optimizer's settings; empty if the model was not compiled.
std::string legacy_training_config(std::string_view config);

}  // namespace tpx::formats::hdf5
