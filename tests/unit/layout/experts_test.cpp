// SPDX-License-Identifier: Apache-2.0
#include "lib/core/error.hpp"
#include "lib/layout/detect_layout.hpp"
#include "lib/layout/express.hpp"
#include "lib/layout/parts.hpp"
#include "lib/layout/shard_map.hpp"
#include "tests/support/families.hpp"
#include "tests/unit/layout/shard_ranks.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

using namespace tpx;

namespace {

using test::families;
using test::ranks_of;

ConfigValue number(int value) { return std::int64_t{value}; }

/// A DeepSeek-V3 of four layers, the first dense, plus one for multi-token prediction: hidden 8, 2 heads, 4 experts.
struct DeepSeek {
    Config config{{"model_type", std::string{"deepseek_v3"}},
                  {"num_hidden_layers", number(4)},
                  {"num_nextn_predict_layers", number(1)},
                  {"hidden_size", number(8)},
                  {"num_attention_heads", number(2)},
                  {"num_key_value_heads", number(2)},
                  {"vocab_size", number(11)},
                  {"intermediate_size", number(12)},
                  {"moe_intermediate_size", number(6)},
                  {"n_routed_experts", number(4)},
                  {"n_shared_experts", number(1)},
                  {"q_lora_rank", number(5)},
                  {"kv_lora_rank", number(3)},
                  {"qk_nope_head_dim", number(4)},
                  {"qk_rope_head_dim", number(2)},
                  {"v_head_dim", number(4)}};
    std::vector<Tensor> tensors;

    void add(const std::string& name, const Shape& shape) { tensors.push_back({name, DType::bf16, shape}); }

    void add_layer(int l) {
        const auto in_layer = [&](std::string_view rest, const Shape& shape) {
            add(fmt::format("model.layers.{}.{}.weight", l, rest), shape);
        };
        in_layer("input_layernorm", Shape(1, 8));
        in_layer("post_attention_layernorm", Shape(1, 8));
        in_layer("self_attn.q_a_proj", {5, 8});
        in_layer("self_attn.q_a_layernorm", Shape(1, 5));
        in_layer("self_attn.q_b_proj", {12, 5});
        in_layer("self_attn.kv_a_proj_with_mqa", {5, 8});
        in_layer("self_attn.kv_a_layernorm", Shape(1, 3));
        in_layer("self_attn.kv_b_proj", {16, 3});
        in_layer("self_attn.o_proj", {8, 8});
        const auto mlp = [&](const std::string& where, Index width) {
            in_layer(where + ".gate_proj", {width, 8});
            in_layer(where + ".up_proj", {width, 8});
            in_layer(where + ".down_proj", {8, width});
        };
        if (l == 0) return mlp("mlp", 12);
        in_layer("mlp.gate", {4, 8});
        add(fmt::format("model.layers.{}.mlp.gate.e_score_correction_bias", l), Shape(1, 4));
        for (int e = 0; e < 4; ++e) mlp(fmt::format("mlp.experts.{}", e), 6);
        mlp("mlp.shared_experts", 6);
    }

    DeepSeek() {
        add("model.embed_tokens.weight", {11, 8});
        for (int l = 0; l < 5; ++l) add_layer(l);
        for (const char* name : {"enorm", "hnorm", "shared_head.norm"})
            add(fmt::format("model.layers.4.{}.weight", name), Shape(1, 8));
        add("model.layers.4.eh_proj.weight", {8, 16});
        add("model.layers.4.shared_head.head.weight", {11, 8});
        add("model.layers.4.embed_tokens.weight", {11, 8});
        add("model.norm.weight", Shape(1, 8));
        add("lm_head.weight", {11, 8});
    }

    Reading reading() const { return read(tensors, families(), config); }
};

ExpressedState in_dialect(const Reading& source, const std::vector<Tensor>& tensors, const char* dialect,
                          const std::set<std::string>& tags) {
    const Config config{{"make_vocab_size_divisible_by", number(4)}};
    return express(source, tensors, *source.family->dialect(dialect), config, 1, tags);
}

std::map<std::string, Shape> shapes(const ExpressedState& expressed) {
    std::map<std::string, Shape> found;
    for (const Tensor& tensor : expressed.tensors) CHECK(found.emplace(tensor.name, tensor.shape).second);
    return found;
}

/// Canonical names, and how often each occurs.
std::map<std::string, int> canonical(const Reading& reading, const std::vector<Tensor>& tensors) {
    std::map<std::string, int> found;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        for (const Part& part : parts_of(reading, tensors[t], reading.meanings[t])) ++found[part.name];
    }
    return found;
}

}  // namespace

TEST_CASE("experts have the ranks that megatron-core's RankGenerator gives them") {
    // Groups of RankGenerator(tp=etp, ep, dp=edp, pp, cp=1) for tp=4,cp=2,dp=2,ep=2,etp=2.
    const Layout layout = parse_layout("tp=4,cp=2,dp=2,ep=2,etp=2");
    CHECK(expert_dp(layout) == 4);
    const auto ranks = [&](auto&& at) {
        std::vector<int> all;
        for (int i = 0; i < 4; ++i) all.push_back(expert_rank_at(layout, at(i)));
        return all;
    };
    CHECK(ranks([](int i) { return ExpertCoordinates{0, 0, i, 0}; }) == std::vector{0, 4, 8, 12});
    CHECK(ranks([](int i) { return ExpertCoordinates{1, 1, i, 0}; }) == std::vector{3, 7, 11, 15});
    CHECK(ranks([](int i) { return ExpertCoordinates{i % 2, i / 2, 1, 0}; }) == std::vector{4, 5, 6, 7});
    const Layout piped = parse_layout("tp=2,dp=4,pp=2,ep=4,etp=2");
    CHECK(expert_rank_at(piped, {1, 3, 0, 1}) == 15);
    CHECK(expert_rank_at(piped, {0, 1, 0, 1}) == 10);
    const Layout narrow = parse_layout("tp=2,dp=4,pp=2,ep=2,etp=1");
    CHECK(expert_rank_at(narrow, {0, 1, 3, 1}) == 15);
    CHECK(expert_rank_at(narrow, {0, 0, 2, 0}) == 4);
}

TEST_CASE("stacked experts are split one by one and are on the ranks where Megatron put them") {
    const Config args{{"num_layers", number(2)},           {"hidden_size", number(32)},
                      {"num_attention_heads", number(4)},  {"ffn_hidden_size", number(48)},
                      {"moe_ffn_hidden_size", number(40)}, {"vocab_size", number(97)},
                      {"num_experts", number(4)},          {"swiglu", true}};
    const std::vector<Tensor> tensors{
        {"embedding.word_embeddings.weight", DType::bf16, {112, 32}},
        {"decoder.layers.self_attention.linear_qkv.layer_norm_weight", DType::bf16, {2, 32}},
        {"decoder.layers.self_attention.linear_qkv.weight", DType::bf16, {2, 96, 32}},
        {"decoder.layers.self_attention.linear_proj.weight", DType::bf16, {2, 32, 32}},
        {"decoder.layers.mlp.linear_fc1.layer_norm_weight", DType::bf16, {2, 32}},
        {"decoder.layers.mlp.router.weight", DType::bf16, {2, 4, 32}},
        {"decoder.layers.mlp.experts.experts.linear_fc1.weight", DType::bf16, {2, 4, 80, 32}},
        {"decoder.layers.mlp.experts.experts.linear_fc2.weight", DType::bf16, {2, 4, 32, 40}},
        {"decoder.final_layernorm.weight", DType::bf16, Shape(1, 32)},
        {"output_layer.weight", DType::bf16, {112, 32}}};
    const Reading reading = read(tensors, families(), args);
    REQUIRE(reading.family);
    CHECK(reading.family->name == "qwen3moe");
    REQUIRE(reading.complete);
    const Cutting megatron{.equal = true, .by_layer = true};
    const Layout layout = parse_layout("tp=2,dp=2,ep=2");
    const auto found =
        ShardMap{layout, megatron, {0, 0}}.shards(reading, tensors[6], reading.meanings[6], stored_sharing(layout));
    CHECK(found.size() == 32);  // 2 layers, 4 experts, gate and up, 2 parts
    std::map<Box, std::vector<int>> ranks;
    for (const Shard& shard : found) ranks[shard.box] = ranks_of(layout, shard);
    // As in the files of a run of Megatron with this layout.
    CHECK(ranks.at({{0, 1}, {0, 1}, {0, 20}, {0, 32}}) == std::vector{0});
    CHECK(ranks.at({{0, 1}, {1, 2}, {20, 40}, {0, 32}}) == std::vector{1});
    CHECK(ranks.at({{1, 2}, {2, 3}, {40, 60}, {0, 32}}) == std::vector{2});
    CHECK(ranks.at({{1, 2}, {3, 4}, {60, 80}, {0, 32}}) == std::vector{3});
    const Layout narrow = parse_layout("tp=2,ep=2,etp=1");
    const auto down =
        ShardMap{narrow, megatron, {0, 0}}.shards(reading, tensors[7], reading.meanings[7], stored_sharing(narrow));
    CHECK(down.size() == 8);
    CHECK(ranks_of(narrow, down[1]) == std::vector{0});
    CHECK(ranks_of(narrow, down[2]) == std::vector{1});
    const ShardMap three{parse_layout("dp=3,ep=3"), megatron, {}};
    CHECK_THROWS_WITH_AS(
        three.shards(reading, tensors[7], reading.meanings[7], Sharing::none),
        "tensor 'decoder.layers.mlp.experts.experts.linear_fc2.weight': 4 experts cannot be split across "
        "ep=3; use ep=1, 2 or 4",
        Error);
    const auto router =
        ShardMap{layout, megatron, {0, 0}}.shards(reading, tensors[5], reading.meanings[5], stored_sharing(layout));
    CHECK(router.size() == 2);
    CHECK(ranks_of(layout, router[0]).size() == 4);
}

TEST_CASE("without args, ep and etp are detected from boxes and their writers") {
    const Config sizes{{"hidden_size", number(32)}, {"num_attention_heads", number(4)}, {"num_experts", number(4)}};
    const std::vector<Tensor> tensors{
        {"embedding.word_embeddings.weight", DType::bf16, {112, 32}},
        {"decoder.layers.self_attention.linear_qkv.layer_norm_weight", DType::bf16, {2, 32}},
        {"decoder.layers.self_attention.linear_qkv.weight", DType::bf16, {2, 96, 32}},
        {"decoder.layers.self_attention.linear_proj.weight", DType::bf16, {2, 32, 32}},
        {"decoder.layers.mlp.linear_fc1.layer_norm_weight", DType::bf16, {2, 32}},
        {"decoder.layers.mlp.router.weight", DType::bf16, {2, 4, 32}},
        {"decoder.layers.mlp.experts.experts.linear_fc1.weight", DType::bf16, {2, 4, 80, 32}},
        {"decoder.layers.mlp.experts.experts.linear_fc2.weight", DType::bf16, {2, 4, 32, 40}},
        {"decoder.final_layernorm.weight", DType::bf16, Shape(1, 32)},
        {"output_layer.weight", DType::bf16, {112, 32}}};
    const Reading reading = read(tensors, families(), sizes);
    REQUIRE(reading.family);
    const Cutting megatron{.equal = true, .by_layer = true};
    for (const char* text : {"tp=1", "tp=2", "dp=2,ep=2", "dp=4,ep=4", "tp=2,dp=2,ep=2", "tp=2,ep=2,etp=1",
                             "pp=2,dp=2,ep=2", "tp=2,dp=2,ep=4,etp=1", "tp=2,pp=2,ep=2,etp=1", "tp=2,pp=2"}) {
        CAPTURE(text);
        const Layout layout = parse_layout(text);
        Catalogue catalogue{.tensors = tensors};
        const std::vector<int> stages = stages_of_layers(layout, 2);
        std::size_t turn = 0;
        for (std::uint32_t t = 0; t < tensors.size(); ++t) {
            for (const Shard& shard : ShardMap{layout, megatron, stages}.shards(
                     reading, tensors[t], reading.meanings[t], stored_sharing(layout))) {
                const std::vector<int> ranks = ranks_of(layout, shard);
                catalogue.pieces.push_back({.tensor = t, .box = shard.box, .rank = ranks[turn++ % ranks.size()]});
            }
        }
        const auto found = detect_layout(catalogue, reading, megatron);
        REQUIRE(found);
        CHECK(to_string(*found) == text);
    }
}

TEST_CASE("grouped experts store their bytes in an order that differs from their shape") {
    // As Megatron's GroupedMLP: weight1 is [h, e * 2x], its bytes are e matrices [h, 2x]; weight2 is [e * x, h].
    const DeepSeek model;
    const Reading reading = model.reading();
    const std::set<std::string> tags{"grouped", "te"};
    const ExpressedState grouped = in_dialect(reading, model.tensors, "mcore", tags);
    const auto at = std::ranges::find(grouped.tensors, "decoder.layers.2.mlp.experts.weight1", &Tensor::name);
    REQUIRE(at != grouped.tensors.end());
    CHECK(at->shape == Shape{8, 4 * 2 * 6});
    const std::size_t t = static_cast<std::size_t>(at - grouped.tensors.begin());
    Piece whole_piece{.box = whole(at->shape), .strides = row_major(at->shape)};
    for (const Part& part : parts_of(grouped.reading, *at, grouped.reading.meanings[t])) {
        std::vector<Piece> pieces;
        cut_out(part, whole_piece, 0, 2, pieces);
        REQUIRE(pieces.size() == 1);
        const int expert = part.name[17] - '0';  // layers.2.experts.N.e_up
        const bool up = part.name.ends_with("e_up");
        CHECK(part.shape == Shape{6, 8});
        CHECK(pieces[0].offset == 2u * (static_cast<unsigned>(expert) * 8 * 12 + (up ? 6 : 0)));
        CHECK(pieces[0].strides == Strides{1, 12});
    }
    Piece half = whole_piece;
    half.box[0].end = 4;
    std::vector<Piece> pieces;
    CHECK_THROWS_AS(cut_out(parts_of(grouped.reading, *at, grouped.reading.meanings[t])[0], half, 0, 2, pieces), Error);
    const auto down = std::ranges::find(grouped.tensors, "decoder.layers.2.mlp.experts.weight2", &Tensor::name);
    REQUIRE(down != grouped.tensors.end());
    CHECK(down->shape == Shape{24, 8});
}

TEST_CASE("layers for multi-token prediction are numbered after the last layer, and add copies") {
    const DeepSeek model;
    const Reading reading = model.reading();
    REQUIRE(reading.family);
    CHECK(reading.family->name == "deepseek-v3");
    REQUIRE(reading.complete);
    CHECK(layers(reading, model.tensors) == 4);
    const auto parts = canonical(reading, model.tensors);
    CHECK(parts.at("layers.4.eh_proj") == 1);
    CHECK(parts.at("layers.4.experts.3.e_down") == 1);
    CHECK(parts.at("embed") == 2);
    CHECK(parts.at("head") == 2);
    CHECK(stages_of_layers(parse_layout("pp=2"), layers(reading, model.tensors)) == std::vector{0, 0, 1, 1});
}

TEST_CASE("DeepSeek-V3 in Megatron's names: layers that differ have separate names") {
    const DeepSeek model;
    const Reading reading = model.reading();
    const auto te = shapes(in_dialect(reading, model.tensors, "mcore", {"dist", "te"}));
    CHECK(te.at("decoder.layers.0.mlp.linear_fc1.weight") == Shape{24, 8});
    CHECK(te.contains("decoder.layers.0.mlp.linear_fc1.layer_norm_weight"));
    CHECK(te.contains("decoder.layers.1.pre_mlp_layernorm.weight"));
    CHECK_FALSE(te.contains("decoder.layers.0.pre_mlp_layernorm.weight"));
    CHECK(te.at("decoder.layers.3.mlp.experts.experts.linear_fc1.weight") == Shape{4, 12, 8});
    CHECK(te.at("decoder.layers.3.mlp.shared_experts.linear_fc1.weight") == Shape{12, 8});
    CHECK(te.contains("decoder.layers.2.self_attention.linear_q_up_proj.layer_norm_weight"));
    CHECK(te.at("mtp.layers.0.eh_proj.weight") == Shape{8, 16});
    CHECK(te.at("mtp.layers.0.transformer_layer.mlp.experts.experts.linear_fc2.weight") == Shape{4, 8, 6});
    CHECK_FALSE(te.contains("decoder.layers.4.input_layernorm.weight"));
    CHECK(te.at("embedding.word_embeddings.weight") == Shape{12, 8});
    const auto local = shapes(in_dialect(reading, model.tensors, "mcore", {"dist", "local"}));
    CHECK(local.contains("decoder.layers.2.self_attention.q_layernorm.weight"));
    CHECK(local.contains("decoder.layers.0.pre_mlp_layernorm.weight"));
}

TEST_CASE("conversion to Megatron's names and back restores everything except copies") {
    const DeepSeek model;
    const Reading reading = model.reading();
    const ExpressedState there = in_dialect(reading, model.tensors, "mcore", {"dist", "te"});
    REQUIRE(there.reading.complete);
    const auto before = canonical(reading, model.tensors);
    const auto after = canonical(there.reading, there.tensors);
    CHECK(before.size() == after.size());
    for (const auto& [name, count] : after) {
        CAPTURE(name);
        CHECK(count == 1);
        CHECK(before.contains(name));
    }
    const auto back = shapes(in_dialect(there.reading, there.tensors, "hf", {}));
    CHECK(back.size() + 2 == model.tensors.size());
    for (const Tensor& tensor : model.tensors) {
        CAPTURE(tensor.name);
        const bool copy = tensor.name.starts_with("model.layers.4.embed") || tensor.name.ends_with("head.weight");
        if (!copy || tensor.name == "lm_head.weight") CHECK(back.at(tensor.name) == tensor.shape);
    }
}

TEST_CASE("missing experts and missing tensors of layers are reported") {
    const auto refusal = [](const char* lost) {
        DeepSeek model;
        std::erase_if(model.tensors, [&](const Tensor& t) { return t.name == lost; });
        try {
            in_dialect(model.reading(), model.tensors, "mcore", {"dist", "te"});
        } catch (const Error& error) {
            return std::string{error.what()};
        }
        return std::string{};
    };
    CHECK(refusal("model.layers.2.mlp.experts.1.down_proj.weight") ==
          "expert 1 of layer 2 lacks tensor 'model.layers.2.mlp.experts.1.down_proj.weight'; the configuration has 4 "
          "experts (n_routed_experts = 4)");
    CHECK(refusal("model.layers.3.input_layernorm.weight") ==
          "layer 3 lacks tensor 'model.layers.3.input_layernorm.weight'");
    CHECK(refusal("model.layers.4.self_attn.o_proj.weight") ==
          "layer 4 lacks tensor 'model.layers.4.self_attn.o_proj.weight'");
    CHECK(refusal("model.layers.4.embed_tokens.weight") == "");
}
