// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <string>
#include <vector>

namespace tpx::formats {

/// One line for each missing part of the model of `source`: layers, according to config.json or Megatron's args;
/// tensors that every layer has; experts; an untied output layer. For models without rules, finds layers by the numbers
/// in tensor names. Also reports layers that exceed or contradict the configuration. Empty for a complete checkpoint,
/// or if the size of the model is unknown.
std::vector<std::string> missing_parts(const Source& source);

/// Throws Error if transformers, when it loads `target`, would initialize parameters that `source` lacks with new
/// values.
void check_whole_model(const Source& source, const Target& target);

}  // namespace tpx::formats
