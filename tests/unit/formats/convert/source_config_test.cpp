// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/source_config.hpp"

#include "formats/megatron/driver.hpp"
#include "formats/settings/config_file.hpp"
#include "lib/core/error.hpp"
#include "tests/support/families.hpp"
#include "tests/support/scratch.hpp"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <set>
#include <string>

using namespace tpx;
using namespace tpx::formats;

namespace {

constexpr Index biased_layer_count = 2, biased_hidden = 8, biased_heads = 2, biased_size = 4, biased_inner = 6,
                biased_vocabulary = 16;

/// Megatron's checkpoint of a Llama with biases in all linear layers.
Source with_biases() {
    Source source;
    source.checkpoint.format = &torch_dist_driver;
    const auto add = [&](const std::string& name, Shape shape) {
        source.checkpoint.catalogue.tensors.push_back({name, DType::bf16, shape});
    };
    const std::string layer = "decoder.layers.";
    add("embedding.word_embeddings.weight", {biased_vocabulary, biased_hidden});
    add(layer + "self_attention.linear_qkv.layer_norm_weight", {biased_layer_count, biased_hidden});
    add(layer + "self_attention.linear_qkv.weight",
        {biased_layer_count, 3 * biased_heads * biased_size, biased_hidden});
    add(layer + "self_attention.linear_qkv.bias", {biased_layer_count, 3 * biased_heads * biased_size});
    add(layer + "self_attention.linear_proj.weight", {biased_layer_count, biased_hidden, biased_heads * biased_size});
    add(layer + "self_attention.linear_proj.bias", {biased_layer_count, biased_hidden});
    add(layer + "mlp.linear_fc1.layer_norm_weight", {biased_layer_count, biased_hidden});
    add(layer + "mlp.linear_fc1.weight", {biased_layer_count, 2 * biased_inner, biased_hidden});
    add(layer + "mlp.linear_fc1.bias", {biased_layer_count, 2 * biased_inner});
    add(layer + "mlp.linear_fc2.weight", {biased_layer_count, biased_hidden, biased_inner});
    add(layer + "mlp.linear_fc2.bias", {biased_layer_count, biased_hidden});
    add("decoder.final_layernorm.weight", {biased_hidden});
    add("output_layer.weight", {biased_vocabulary, biased_hidden});
    source.families = test::families();
    const Config args{{"num_layers", biased_layer_count},
                      {"hidden_size", biased_hidden},
                      {"num_attention_heads", biased_heads},
                      {"kv_channels", biased_size},
                      {"ffn_hidden_size", biased_inner},
                      {"swiglu", true},
                      {"vocab_size", biased_vocabulary},
                      {"untie_embeddings_and_output_weights", true},
                      {"add_bias_linear", true},
                      {"hf_model_type", "llama"}};
    source.checkpoint.config = args;
    source.reading = read_by_names(source.checkpoint, source.families, args);
    REQUIRE(source.reading.family);
    REQUIRE(source.reading.complete);
    return source;
}

std::string config_json(bool attention, bool mlp) {
    return fmt::format(
        R"({{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 8,
             "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 4, "intermediate_size": 6, "vocab_size": 16,
             "attention_bias": {}, "mlp_bias": {}, "tie_word_embeddings": false}})",
        attention, mlp);
}

/// The tensors that must be zeros.
std::set<std::string> dropped(const std::string& own) {
    Source source = with_biases();
    std::set<std::string> names;
    for (const DroppedCopy& zero : drop_unknown_biases(source, own)) {
        CHECK(zero.is_zero);
        CHECK(source.reading.meanings[zero.dropped].kind == Meaning::Kind::extra);
        names.insert(source.checkpoint.catalogue.tensors[zero.dropped].name.substr(15));
    }
    return names;
}

}  // namespace

TEST_CASE("biases that the model of config.json lacks must be zeros") {
    using Names = std::set<std::string>;
    CHECK(dropped(config_json(true, true)).empty());
    CHECK(dropped(config_json(true, false)) == Names{"mlp.linear_fc1.bias", "mlp.linear_fc2.bias"});
    CHECK(dropped(config_json(false, true)) ==
          Names{"self_attention.linear_proj.bias", "self_attention.linear_qkv.bias"});
    CHECK(dropped("{}").empty());  // no model
}

TEST_CASE("a config.json describes the tensors once zero biases are dropped") {
    Source source = with_biases();
    const std::string own = config_json(true, false);
    std::vector<std::string> notes;
    CHECK(test::message_of([&] { check_source_config(source, own, {}, notes); }) ==
          "config.json does not match the tensors: it has no place for 'model.layers.0.mlp.down_proj.bias' and 5 "
          "more (mlp_bias = false, model_type = llama); --dialect keep leaves the names as they are");
    drop_unknown_biases(source, own);
    check_source_config(source, own, {}, notes);
}

TEST_CASE("of unknown kinds of layers, only near misspellings are refused") {
    const auto said = [](const std::string& word) {
        std::string own = config_json(true, true);
        own.insert(1, fmt::format(R"("layer_types": ["full_attention", "{}"], )", word));
        std::vector<std::string> notes;
        const std::string message = test::message_of([&] { check_source_config(with_biases(), own, {}, notes); });
        return notes.empty() ? message : notes[0];
    };
    for (const char* word : {"mamba2", "moe2", "mla_attention", "gla_attention", "half_attention"})
        CHECK(said(word) == fmt::format("unknown layer type '{}' in layer_types; its tensors are read by the family's "
                                        "rules",
                                        word));
    for (const char* word : {"full_atention", "full_attentoin"})
        CHECK(said(word) == fmt::format("config.json: unknown layer type '{}' in layer_types; did you mean "
                                        "'full_attention'? Correct config.json, or pass --set KEY=VALUE",
                                        word));
}
