// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/config.hpp"

#include <string>
#include <string_view>

namespace tpx::formats::megatron {

/// How rank files spell names that torch_dist spells in only one way.
struct Spelling {
    enum class Experts { sequential, grouped, grouped_te };

    bool local_norms = false;  ///< "input_layernorm.weight" is not fused into the next linear layer
    Experts experts = Experts::sequential;

    /// The spelling of the model's classes, which Megatron's args select.
    static Spelling of(const Config& args);
};

/// The parts of a name: "decoder.layers.3.mlp.experts.local_experts.1.linear_fc1.weight" is layer 3 of tensor
/// "mlp.experts.experts.linear_fc1.weight", expert 1.
struct RankName {
    std::string stack;  ///< "decoder.layers." or "encoder.layers."; empty outside of the stack of layers
    int layer = -1;
    std::string within;            ///< "mtp.layers.0.transformer_layer.": a decoder layer outside of the stack
    std::string tensor;            ///< after stack and layer, or after `within`; spelled as in torch_dist
    int expert = -1;               ///< of a tensor that belongs to one expert
    bool grouped_experts = false;  ///< contains all the rank's experts: weight1 and weight2 of GroupedMLP

    /// The name in torch_dist, without a layer or, if it is not negative, with layer `with_layer`.
    std::string stored(int with_layer = -1) const;
};

/// Parses a name of a rank file.
RankName parse_rank_name(std::string_view name, const Spelling& spelling);

/// The name in a rank file; `expert` counts from 0 in the file. The inverse of parse_rank_name().
std::string rank_name(const RankName& name, const Spelling& spelling);

/// Parses a name of torch_dist; expert is -1, because experts are an axis of the tensor.
RankName parse_stored_name(std::string_view name);

/// Whether `name`, a torch_dist name, is that of a tensor of experts.
bool is_expert(std::string_view name);

/// Whether `name` is an entry of a state dict that is not a parameter, and so has no optimizer state.
bool is_buffer(std::string_view name);

/// The second name of the parameter `name`, which T5 has under two names; empty for others. Optimizers of models with
/// both names have one state for both.
std::string_view second_name(std::string_view name);

/// A key that sorts parameters of a rank file in the order of the model's named_parameters(), in which Megatron's
/// optimizers number parameters.
std::string module_order(std::string_view name);

}  // namespace tpx::formats::megatron
