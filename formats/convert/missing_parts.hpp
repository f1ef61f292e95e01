// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <string>
#include <vector>

namespace tpx::formats {

/// What the model of `source` must have and no tensor of it stores, a line each: layers that config.json or Megatron's
/// args count, tensors that every layer has, experts, an output layer that is not tied. Of models that no rules know,
/// layers are counted by the numbers in the tensors' names. Also layers that the configuration does not count, or
/// describes otherwise. Empty for a complete checkpoint, and where nothing says how large the model is.
std::vector<std::string> missing_parts(const Source& source);

/// Throws Error when transformers, loading `target`, would invent parameters that the model of `source` lacks.
void check_whole_model(const Source& source, const Target& target);

}  // namespace tpx::formats
