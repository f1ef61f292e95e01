// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tpx::formats {

/// "1, 4 to 7".
std::string ranges_text(const std::vector<Index>& numbers);

/// "layer 3", "layers 1, 4 to 7".
std::string layers_text(const std::vector<Index>& numbers);

/// A line about the layers below `count` that are not in `present`; unset if there are none. `configured`: `count`
/// comes from a configuration.
std::optional<std::string> absent_layers(const std::set<Index>& present, Index count, bool configured);

/// The missing layers of a model without rules, a line each: the stack of layers with the most tensors must have as
/// many layers as the configuration says.
std::vector<std::string> missing_numbered_layers(const Source& source);

}  // namespace tpx::formats
