// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"
#include "formats/megatron/rank_files.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats::megatron {

/// An entry of a model's state dict, under the name that Megatron-core has for it.
struct ModelEntry {
    std::string name;
    torch::Value value;
    bool fused_qkv = false;  ///< query_key_value, whose rows older checkpoints order otherwise
};

/// Whether a model chunk has the names of Megatron-LM before Megatron-core: dicts in dicts below "language_model".
bool has_old_names(torch::Value chunk);

/// The entries of such a chunk: "language_model", "encoder", "layers.0.attention.dense.weight" is
/// "decoder.layers.0.self_attention.linear_proj.weight". Other names stay what they are, joined with dots.
std::vector<ModelEntry> entries_by_old_names(torch::Value chunk);

/// How rows of query_key_value follow each other in a file of checkpoint_version `version`. Throws Error for one that
/// never was.
RowOrder row_order(double version);

}  // namespace tpx::formats::megatron
