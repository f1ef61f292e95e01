// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/old_names.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>

namespace tpx::formats::megatron {

TEST_CASE("names of Megatron-LM before Megatron-core are converted to current ones") {
    torch::Document document;
    const auto dict = [&](std::vector<std::pair<std::string, torch::Value>> items) {
        std::vector<torch::Entry> entries;
        for (const auto& [key, value] : items) entries.push_back({document.string(key), value});
        return document.dict(entries);
    };
    const torch::Value leaf = document.integer(1);
    for (const char* stack : {"encoder", "transformer"}) {
        const torch::Value layers = dict({{"layers.0.input_layernorm.weight", leaf},
                                          {"layers.0.attention.query_key_value.bias", leaf},
                                          {"layers.10.self_attention.dense.weight", leaf},
                                          {"layers.10.post_attention_norm.bias", leaf},
                                          {"layers.1.mlp.dense_h_to_4h.weight", leaf},
                                          {"layers.1.mlp.dense_4h_to_h.bias", leaf},
                                          {"final_norm.weight", leaf}});
        const torch::Value embedding = dict({{"word_embeddings", dict({{"weight", leaf}})}});
        const torch::Value chunk = dict({{"language_model", dict({{"embedding", embedding}, {stack, layers}})},
                                         {"word_embeddings_for_head", dict({{"weight", leaf}})}});
        CHECK(has_old_names(chunk));
        std::vector<std::string> names;
        std::vector<std::string> fused;
        for (const ModelEntry& entry : entries_by_old_names(chunk)) {
            names.push_back(entry.name);
            if (entry.fused_qkv) fused.push_back(entry.name);
        }
        CHECK(names ==
              std::vector<std::string>{"embedding.word_embeddings.weight", "decoder.layers.0.input_layernorm.weight",
                                       "decoder.layers.0.self_attention.linear_qkv.bias",
                                       "decoder.layers.10.self_attention.linear_proj.weight",
                                       "decoder.layers.10.pre_mlp_layernorm.bias",
                                       "decoder.layers.1.mlp.linear_fc1.weight", "decoder.layers.1.mlp.linear_fc2.bias",
                                       "decoder.final_layernorm.weight", "output_layer.weight"});
        CHECK(fused == std::vector<std::string>{"decoder.layers.0.self_attention.linear_qkv.bias"});
    }
    CHECK_FALSE(has_old_names(dict({{"decoder.final_layernorm.weight", leaf}})));
}

TEST_CASE("the order of fused rows by checkpoint_version") {
    CHECK(row_order(0) == RowOrder::parts_first);
    CHECK(row_order(1.0) == RowOrder::parts_last);
    CHECK(row_order(2.0) == RowOrder::by_head);
    CHECK(row_order(3.0) == RowOrder::by_head);
    CHECK_THROWS_AS(row_order(0.5), Error);
    CHECK_THROWS_AS(row_order(4), Error);
}

}  // namespace tpx::formats::megatron
