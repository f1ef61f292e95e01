// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/config.hpp"

#include <string>
#include <string_view>

namespace tpx::formats::megatron {

/// How rank files spell what torch_dist spells in one way.
struct Spelling {
    enum class Experts { sequential, grouped, grouped_te };

    bool local_norms = false;  ///< "input_layernorm.weight", not fused into the next linear
    Experts experts = Experts::sequential;

    /// What Megatron's args say of the model's classes.
    static Spelling of(const Config& args);
};

/// A name taken apart: "decoder.layers.3.mlp.experts.local_experts.1.linear_fc1.weight" is layer 3 of tensor
/// "mlp.experts.experts.linear_fc1.weight", expert 1.
struct RankName {
    std::string stack;  ///< "decoder.layers." or "encoder.layers."; empty outside of the stack of layers
    int layer = -1;
    std::string within;            ///< "mtp.layers.0.transformer_layer.": a decoder layer outside of the stack
    std::string tensor;            ///< behind stack and layer, or that, spelt as in torch_dist
    int expert = -1;               ///< of a tensor for one expert
    bool grouped_experts = false;  ///< holds all the rank's experts: weight1 and weight2 of GroupedMLP

    /// As torch_dist spells it, without the layer or with `layer`.
    std::string stored(int with_layer = -1) const;
};

/// Takes apart a name of a rank file.
RankName parse_rank_name(std::string_view name, const Spelling& spelling);

/// The name in a rank file; `expert` counts from 0 in the file. The inverse of parse_rank_name().
std::string rank_name(const RankName& name, const Spelling& spelling);

/// Takes apart a name of torch_dist; expert is -1, as an axis of the tensor is for experts.
RankName parse_stored_name(std::string_view name);

/// Whether a tensor is one for each expert, by its torch_dist name.
bool is_expert(std::string_view name);

/// What a state dict holds that is no parameter, and so has no place in the optimizer.
bool is_buffer(std::string_view name);

/// The place of parameter `name` of a rank file among named_parameters() of the model, for sorting: Megatron's
/// optimizers number parameters in this order.
std::string module_order(std::string_view name);

}  // namespace tpx::formats::megatron
