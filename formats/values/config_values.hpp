// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/config.hpp"

#include <map>
#include <string>

namespace tpx::formats {

/// The values of a model's config.json by path, "config.rope_parameters.rope_theta", as text; empty for an empty text.
/// Omits values that describe the program that wrote the file, its folder, and the dtype, which tensors record. Throws
/// Error if it is not JSON.
std::map<std::string, std::string> config_values(const std::string& config_json);

/// The same for a Keras model, from the attributes "model_config" and "training_config" of whole-model files; the
/// latter may be empty. Throws Error if one of them is not JSON.
std::map<std::string, std::string> keras_values(const std::string& model_config, const std::string& training_config);

}  // namespace tpx::formats
