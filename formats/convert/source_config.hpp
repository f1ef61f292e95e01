// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/dropped_copies.hpp"
#include "formats/source.hpp"

#include <string>
#include <vector>

namespace tpx::formats {

/// The transformers names for the tensors of `reading`. PyTorch's roles have no masters, so a master whose weight is
/// not stored becomes the weight. Throws Error if the family has no such names.
Dialect names_of_transformers(const Reading& reading);

/// Checks that the number of stored layers matches the config.json `own`. Throws Error with both numbers if not.
void check_layer_count(const Source& source, const Config& own);

/// Checks that `own`, the text of the config.json of `source`, describes the stored tensors: their layers, shapes and
/// names. `config` has its settings and the user's. Throws Error with the setting or tensor and both values if not.
/// Adds a note about unknown kinds of layers.
void check_source_config(const Source& source, const std::string& own, const Config& config,
                         std::vector<std::string>& notes);

/// Excludes biases from the reading of `source`, a checkpoint with Megatron names, if the model of `own`, the text of
/// its config.json, has no such biases: Megatron has biases in all linear layers or in none. Returns the biases, which
/// must be zeros or data is lost.
std::vector<DroppedCopy> drop_unknown_biases(Source& source, const std::string& own);

}  // namespace tpx::formats
