// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

/// What a whole model of Keras' old kind says of the model, out of what an archive of version 3 says.
namespace tpx::formats::hdf5 {

/// What a class of Keras is called in its own code, and in paths and whole models of the old kind, where users call it
/// otherwise.
std::string_view keras_own_class(std::string_view kind);

/// Whether a text is the configuration of a model: that of an archive, or what model.to_json() returns.
bool is_keras_config(std::string_view text);

/// The attribute model_config. Layers lose what only version 3 knows: where their class is defined, how they were
/// built, and which objects they share.
std::string old_model_config(std::string_view config);

/// The attribute training_config: loss, metrics and the optimizer's settings; empty when the model was not compiled.
std::string old_training_config(std::string_view config);

}  // namespace tpx::formats::hdf5
