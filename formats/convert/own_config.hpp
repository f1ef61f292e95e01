// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/dropped_copies.hpp"
#include "formats/source.hpp"

#include <string>
#include <vector>

namespace tpx::formats {

/// How transformers names the tensors of `reading`. Torch's roles have no masters, so a master whose weight is not
/// stored becomes the weight. Throws Error if the family has no such names.
Dialect names_of_transformers(const Reading& reading);

/// Requires that as many layers are stored as the config.json `own` counts. Throws Error with both numbers.
void check_layer_count(const Source& source, const Config& own);

/// Requires that `own`, the text of the config.json of `source`, describes the model whose tensors are stored: their
/// layers, shapes, and which of them there are. `config` has these settings and those that the user adds. Throws Error
/// that names the setting or the tensor, with the numbers of both. Adds a note about kinds of layers that tpx does not
/// know.
void check_own_config(const Source& source, const std::string& own, const Config& config,
                      std::vector<std::string>& notes);

/// Takes biases of zeros from what `source`, a checkpoint with Megatron's names, is read as, if the model of `own`, the
/// text of its config.json, has no such biases: Megatron has biases in all linear layers or in none. Returns what must
/// be zeros so that nothing is lost.
std::vector<DroppedCopy> drop_unknown_biases(Source& source, const std::string& own);

}  // namespace tpx::formats
