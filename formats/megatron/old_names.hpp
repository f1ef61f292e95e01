// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"
#include "formats/megatron/rank_files.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats::megatron {

/// An entry of a model's state dict under its Megatron-core name.
struct ModelEntry {
    std::string name;
    torch::Value value;
    bool fused_qkv = false;  ///< query_key_value, whose rows have another order in older checkpoints
};

/// Whether a model chunk has the names of Megatron-LM before Megatron-core: nested dicts below "language_model".
bool has_old_names(torch::Value chunk);

/// The entries of such a chunk: the keys "language_model", "encoder", "layers.0.attention.dense.weight" become
/// "decoder.layers.0.self_attention.linear_proj.weight". Other keys stay as they are, joined with dots.
std::vector<ModelEntry> entries_by_old_names(torch::Value chunk);

/// The order of the rows of query_key_value in files of checkpoint_version `version`. Throws Error for a version that
/// never existed.
RowOrder row_order(double version);

}  // namespace tpx::formats::megatron
