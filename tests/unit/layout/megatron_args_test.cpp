// SPDX-License-Identifier: Apache-2.0
#include "lib/core/error.hpp"
#include "lib/layout/express.hpp"
#include "lib/layout/framework_limits.hpp"
#include "tests/support/families.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>

using namespace tpx;

namespace {

using test::families;

constexpr Index hidden = 8;

ConfigValue text(const char* value) { return std::string{value}; }
ConfigValue number(std::int64_t value) { return value; }

Config mixtral() {
    return {{"model_type", text("mixtral")},
            {"num_hidden_layers", number(2)},
            {"hidden_size", number(hidden)},
            {"vocab_size", number(16)},
            {"num_attention_heads", number(2)},
            {"num_key_value_heads", number(2)},
            {"intermediate_size", number(4)},
            {"num_local_experts", number(2)},
            {"num_experts_per_tok", number(2)},
            {"rms_norm_eps", 1e-5},
            {"rope_theta", 10000.0},
            {"sliding_window", number(4)},
            {"tie_word_embeddings", false},
            {"hidden_act", text("silu")},
            {"max_position_embeddings", number(32)},
            {"make_vocab_size_divisible_by", number(1)}};
}

/// A Mixtral of two layers, as Hugging Face stores it.
std::vector<Tensor> mixtral_tensors() {
    std::vector<Tensor> tensors{{"model.embed_tokens.weight", DType::f32, {16, hidden}},
                                {"model.norm.weight", DType::f32, Shape(1, hidden)},
                                {"lm_head.weight", DType::f32, {16, hidden}}};
    for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
        for (const char* norm : {"input_layernorm.weight", "post_attention_layernorm.weight"})
            tensors.push_back({layer + norm, DType::f32, Shape(1, hidden)});
        for (const char* side : {"q", "k", "v", "o"})
            tensors.push_back({layer + "self_attn." + side + "_proj.weight", DType::f32, {hidden, hidden}});
        tensors.push_back({layer + "block_sparse_moe.gate.weight", DType::f32, {2, hidden}});
        for (const std::string expert : {"0", "1"}) {
            const std::string name = layer + "block_sparse_moe.experts." + expert + ".w";
            tensors.push_back({name + "1.weight", DType::f32, {4, hidden}});
            tensors.push_back({name + "2.weight", DType::f32, {hidden, 4}});
            tensors.push_back({name + "3.weight", DType::f32, {4, hidden}});
        }
    }
    return tensors;
}

ExpressedState as_megatron(const Config& config) {
    const std::vector<Tensor> tensors = mixtral_tensors();
    const Reading reading = read(tensors, families(), config);
    REQUIRE(reading.family);
    return express(reading, tensors, *reading.family->dialect("mcore"), config, 1, {"dist", "te"});
}

std::map<std::string, ConfigSetting> args_of(const ExpressedState& expressed, const Config& config) {
    std::map<std::string, ConfigSetting> args;
    for (const ConfigSetting& setting : configuration_for(expressed, "mcore", config)) args[setting.key] = setting;
    return args;
}

}  // namespace

TEST_CASE("T6: if all layers have experts, they share tensors, and Megatron's frequency of experts is the number 1") {
    const Config config = mixtral();
    const ExpressedState expressed = as_megatron(config);
    std::set<std::string> names;
    for (const Tensor& tensor : expressed.tensors) names.insert(tensor.name);
    CHECK(names.contains("decoder.layers.mlp.router.weight"));
    const auto args = args_of(expressed, config);
    CHECK(args.at("moe_layer_freq").value == number(1));
    CHECK(args.at("num_experts").value == number(2));
    CHECK(args.at("moe_router_pre_softmax").value == ConfigValue{false});
}

TEST_CASE("an attention window includes the token itself in Hugging Face, but not in Megatron") {
    const Config config = mixtral();
    const ConfigSetting window = args_of(as_megatron(config), config).at("window_size");
    CHECK(window.value == text("3,0"));
    CHECK(window.tuple);
}

TEST_CASE("settings that Megatron computes differently are refused") {
    Config config = mixtral();
    check_framework_limits(as_megatron(config), "mcore", config);
    config["hidden_act"] = text("gelu");
    CHECK_THROWS_WITH_AS(
        check_framework_limits(as_megatron(config), "mcore", config),
        "hidden_act = gelu: Megatron's gated MLP has SiLU; --set hidden_act=silu ignores this difference", Error);
    config["hidden_act"] = text("silu");
    config["rope_parameters.rope_type"] = text("llama3");
    config["rope_parameters.factor"] = 8.0;
    check_framework_limits(as_megatron(config), "mcore", config);
    config["rope_parameters.factor"] = 32.0;
    CHECK_THROWS_AS(check_framework_limits(as_megatron(config), "mcore", config), Error);
}
