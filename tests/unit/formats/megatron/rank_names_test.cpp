// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/rank_names.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace tpx::formats::megatron {

TEST_CASE("names in rank files are converted to those of torch_dist, and back") {
    const Spelling local{.local_norms = true};
    const Spelling te{.experts = Spelling::Experts::grouped_te};
    const Spelling grouped{.local_norms = true, .experts = Spelling::Experts::grouped};
    struct Case {
        const char* name;
        Spelling spelling;
        const char* stored;
        int layer, expert;
    };
    for (const Case& c : std::vector<Case>{
             {"embedding.word_embeddings.weight", local, "embedding.word_embeddings.weight", -1, -1},
             {"decoder.layers.3.input_layernorm.bias", local,
              "decoder.layers.self_attention.linear_qkv.layer_norm_bias", 3, -1},
             {"decoder.layers.0.pre_mlp_layernorm.weight", local, "decoder.layers.mlp.linear_fc1.layer_norm_weight", 0,
              -1},
             {"decoder.layers.0.pre_mlp_layernorm.weight", te, "decoder.layers.pre_mlp_layernorm.weight", 0, -1},
             {"decoder.layers.12.mlp.experts.local_experts.7.linear_fc1.weight", local,
              "decoder.layers.mlp.experts.experts.linear_fc1.weight", 12, 7},
             {"decoder.layers.1.mlp.experts.linear_fc2.weight31", te,
              "decoder.layers.mlp.experts.experts.linear_fc2.weight", 1, 31},
             {"decoder.layers.1.mlp.experts.linear_fc1.bias2", te, "decoder.layers.mlp.experts.experts.linear_fc1.bias",
              1, 2},
             {"decoder.layers.1.mlp.experts.weight2", grouped, "decoder.layers.mlp.experts.experts.linear_fc2.weight",
              1, -1},
             {"decoder.layers.1.mlp.shared_experts.linear_fc2.weight", te,
              "decoder.layers.mlp.shared_experts.linear_fc2.weight", 1, -1},
             {"mtp.layers.1.transformer_layer.mlp.experts.local_experts.3.linear_fc1.weight", local,
              "mtp.layers.1.transformer_layer.mlp.experts.experts.linear_fc1.weight", -1, 3},
             {"mtp.layers.0.mtp_model_layer.mlp.experts.linear_fc2.weight12", te,
              "mtp.layers.0.mtp_model_layer.mlp.experts.experts.linear_fc2.weight", -1, 12},
             {"mtp.layers.0.transformer_layer.mlp.experts.weight1", grouped,
              "mtp.layers.0.transformer_layer.mlp.experts.experts.linear_fc1.weight", -1, -1},
             {"mtp.layers.0.transformer_layer.input_layernorm.weight", local,
              "mtp.layers.0.transformer_layer.self_attention.linear_qkv.layer_norm_weight", -1, -1},
             {"mtp.layers.0.eh_proj.weight", local, "mtp.layers.0.eh_proj.weight", -1, -1},
             {"decoder.final_layernorm.weight", local, "decoder.final_layernorm.weight", -1, -1},
         }) {
        CAPTURE(c.name);
        const RankName parsed = parse_rank_name(c.name, c.spelling);
        CHECK(parsed.stored() == c.stored);
        CHECK(parsed.layer == c.layer);
        CHECK(parsed.expert == c.expert);
        CHECK(rank_name(parsed, c.spelling) == c.name);
    }
    CHECK(parse_rank_name("decoder.layers.3.input_layernorm.bias", local).stored(5) ==
          "decoder.layers.5.self_attention.linear_qkv.layer_norm_bias");
}

TEST_CASE("args determine the spelling") {
    CHECK(Spelling::of({{"transformer_impl", std::string{"local"}}}).local_norms);
    CHECK(!Spelling::of({{"transformer_impl", std::string{"transformer_engine"}}}).local_norms);
    CHECK(!Spelling::of({{"multi_latent_attention", true}}).local_norms);
    CHECK(Spelling::of({{"moe_grouped_gemm", true}, {"moe_use_legacy_grouped_gemm", true}}).experts ==
          Spelling::Experts::grouped);
    CHECK(Spelling::of({{"moe_grouped_gemm", true}, {"transformer_impl", std::string{"transformer_engine"}}}).experts ==
          Spelling::Experts::grouped_te);
}

TEST_CASE("parameters sort as the modules of Megatron's model hold them") {
    const std::vector<std::string> order{"embedding.word_embeddings.weight",
                                         "embedding.position_embeddings.weight",
                                         "decoder.layers.0.input_layernorm.weight",
                                         "decoder.layers.0.input_layernorm.bias",
                                         "decoder.layers.0.self_attention.linear_proj.weight",
                                         "decoder.layers.0.self_attention.linear_proj.bias",
                                         "decoder.layers.0.self_attention.linear_qkv.weight",
                                         "decoder.layers.0.self_attention.linear_qkv.bias",
                                         "decoder.layers.0.self_attention.q_layernorm.weight",
                                         "decoder.layers.0.pre_mlp_layernorm.weight",
                                         "decoder.layers.0.mlp.linear_fc1.weight",
                                         "decoder.layers.0.mlp.linear_fc1.bias",
                                         "decoder.layers.0.mlp.linear_fc2.weight",
                                         "decoder.layers.2.self_attention.linear_qkv.layer_norm_weight",
                                         "decoder.layers.2.self_attention.linear_qkv.layer_norm_bias",
                                         "decoder.layers.2.self_attention.linear_qkv.weight",
                                         "decoder.layers.10.mlp.router.weight",
                                         "decoder.layers.10.mlp.experts.local_experts.0.linear_fc1.weight",
                                         "decoder.layers.10.mlp.experts.local_experts.0.linear_fc2.weight",
                                         "decoder.layers.10.mlp.experts.local_experts.11.linear_fc1.weight",
                                         "decoder.layers.10.mlp.shared_experts.linear_fc1.weight",
                                         "decoder.layers.11.mlp.experts.linear_fc1.weight0",
                                         "decoder.layers.11.mlp.experts.linear_fc1.weight11",
                                         "decoder.layers.11.mlp.experts.linear_fc2.weight0",
                                         "decoder.final_layernorm.weight",
                                         "mtp.layers.0.enorm.weight",
                                         "mtp.layers.0.hnorm.weight",
                                         "mtp.layers.0.eh_proj.weight",
                                         "mtp.layers.0.transformer_layer.input_layernorm.weight",
                                         "mtp.layers.0.transformer_layer.self_attention.linear_proj.weight",
                                         "mtp.layers.0.transformer_layer.mlp.linear_fc2.weight",
                                         "mtp.layers.0.final_layernorm.weight",
                                         "mtp.layers.1.enorm.weight",
                                         "output_layer.weight"};
    for (std::size_t k = 1; k < order.size(); ++k) {
        CAPTURE(order[k]);
        CHECK(module_order(order[k - 1]) < module_order(order[k]));
    }
}

}  // namespace tpx::formats::megatron
