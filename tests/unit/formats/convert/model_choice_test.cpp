// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/model_choice.hpp"

#include "formats/convert/dialect_choice.hpp"
#include "formats/deepspeed/driver.hpp"
#include "formats/megatron/driver.hpp"
#include "formats/safetensors/driver.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/error.hpp"
#include "tests/support/families.hpp"

#include <doctest/doctest.h>

using namespace tpx;
using namespace tpx::formats;

namespace {

using test::families;

constexpr Index moe_layers = 2, hidden = 8, heads = 2, size = 4, experts = 4, inner = 6, vocabulary = 16;

Config moe_args() {
    return {{"num_layers", moe_layers},
            {"hidden_size", hidden},
            {"num_attention_heads", heads},
            {"kv_channels", size},
            {"num_experts", experts},
            {"ffn_hidden_size", inner},
            {"moe_ffn_hidden_size", inner},
            {"swiglu", true},
            {"padded_vocab_size", vocabulary},
            {"moe_router_topk", Index{2}},
            {"norm_epsilon", 1e-5},
            {"rotary_base", Index{10000}},
            {"rotary_percent", 1.0},
            {"seq_length", Index{64}},
            {"moe_layer_freq", Index{1}},
            {"normalization", "RMSNorm"},
            {"moe_router_topk_scaling_factor", nullptr},
            {"untie_embeddings_and_output_weights", true}};
}

/// Megatron's checkpoint of a small decoder with experts.
Source moe(const Config& args, bool norms) {
    Source source;
    source.checkpoint.format = &torch_dist_driver;
    source.checkpoint.config = args;
    const auto add = [&](const std::string& name, Shape shape) {
        source.checkpoint.catalogue.tensors.push_back({name, DType::bf16, shape});
    };
    const std::string layer = "decoder.layers.";
    add("embedding.word_embeddings.weight", {vocabulary, hidden});
    add(layer + "self_attention.linear_qkv.layer_norm_weight", {moe_layers, hidden});
    add(layer + "self_attention.linear_qkv.weight", {moe_layers, 3 * heads * size, hidden});
    add(layer + "self_attention.linear_proj.weight", {moe_layers, hidden, heads * size});
    if (norms) add(layer + "self_attention.q_layernorm.weight", {moe_layers, size});
    if (norms) add(layer + "self_attention.k_layernorm.weight", {moe_layers, size});
    add(layer + "pre_mlp_layernorm.weight", {moe_layers, hidden});
    add(layer + "mlp.router.weight", {moe_layers, experts, hidden});
    add(layer + "mlp.experts.experts.linear_fc1.weight", {moe_layers, experts, 2 * inner, hidden});
    add(layer + "mlp.experts.experts.linear_fc2.weight", {moe_layers, experts, hidden, inner});
    add("decoder.final_layernorm.weight", {hidden});
    add("output_layer.weight", {vocabulary, hidden});
    source.families = families();
    source.reading = read_by_names(source.checkpoint, families(), args);
    REQUIRE(source.reading.family);
    REQUIRE(source.reading.complete);
    return source;
}

/// The model_type chosen for transformers, or why none was chosen.
std::string chosen(Source source, const Config& settings = {}) {
    Target target;
    target.format = &safetensors_driver;
    target.config = settings;
    std::vector<std::string> notes;
    Config config = source.reading.config;
    for (const auto& [key, value] : settings) config[key] = value;
    try {
        const ModelChoice choice = choose_model(source, target, choose_dialect(source, target, notes), config, notes);
        REQUIRE(choice.dialect);
        CHECK(choice.dialect->name == "hf");
        CHECK(choice.config_json == ModelChoice::File::made);
        return std::get<std::string>(source.reading.config.at("hf_model_type"));
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::usage);
        return error.what();
    }
}

bool has(const std::string& text, std::string_view word) { return text.find(word) != text.npos; }

Config with(Config config, const std::string& key, ConfigValue value) {
    config[key] = std::move(value);
    return config;
}

}  // namespace

TEST_CASE("experts without query and key norms mean Mixtral, with them Qwen3 (T4)") {
    CHECK(chosen(moe(moe_args(), false)) == "mixtral");
    CHECK(chosen(moe(moe_args(), true)) == "qwen3_moe");
}

TEST_CASE("a requested model that does not fit is refused, and the one that fits is named") {
    const std::string why = chosen(moe(moe_args(), false), {{"model_type", "qwen3_moe"}});
    CHECK(has(why,
              "it needs 'model.layers.0.self_attn.k_norm.weight' and 3 more (model_type = qwen3_moe), which the "
              "checkpoint lacks"));
    CHECK(has(why, "--set model_type=mixtral fits"));
}

TEST_CASE("a model that transformers does not have is refused with the setting that prevents it") {
    CHECK(has(chosen(moe(with(moe_args(), "rotary_interleaved", true), false)), "rotary_interleaved = true"));
    CHECK(has(chosen(moe(with(moe_args(), "normalization", "LayerNorm"), true)), "normalization = LayerNorm"));
    CHECK(has(chosen(moe(with(moe_args(), "moe_router_pre_softmax", true), false)), "no model_type fits"));
    CHECK(has(chosen(moe(with(moe_args(), "rotary_percent", 0.5), true)), "rotary_percent = 0.5"));
}

TEST_CASE("unknown settings are requested, not assumed (T8)") {
    Config args = moe_args();
    args.erase("rotary_base");
    const std::string why = chosen(moe(args, true));
    CHECK(has(why, "rope_theta (transformers assumes 10000)"));
    CHECK(has(why, "--set rope_theta=X"));
    CHECK(chosen(moe(args, true), {{"rope_theta", Index{10000}}}) == "qwen3_moe");
}

TEST_CASE("formats whose loaders never read config.json do not ask for settings that only it needs") {
    Config args = moe_args();
    args.erase("seq_length");
    CHECK(has(chosen(moe(args, true)), "max_position_embeddings"));
    Source source = moe(args, true);
    Target target;
    target.format = &universal_driver;
    std::vector<std::string> notes;
    const ModelChoice choice =
        choose_model(source, target, choose_dialect(source, target, notes), source.reading.config, notes);
    CHECK(choice.config_json == ModelChoice::File::made);
    REQUIRE(notes.size() == 1);
    CHECK(has(notes[0], "config.json names no architectures"));
    CHECK(has(notes[0], "max_position_embeddings"));
}
