// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/config.hpp"

#include <map>
#include <string>

namespace tpx::formats {

/// The values of a model's config.json by path, "config.rope_parameters.rope_theta", as text; empty for an empty text.
/// Left out is what names the program that wrote the file, its folder, and the dtype, which the tensors have
/// themselves. Throws Error when it is no JSON.
std::map<std::string, std::string> config_values(const std::string& config_json);

/// The same for a model of Keras, by what whole-model files have as attributes "model_config" and "training_config";
/// the latter may be empty. Throws Error when one of them is not JSON.
std::map<std::string, std::string> keras_values(const std::string& model_config, const std::string& training_config);

}  // namespace tpx::formats
