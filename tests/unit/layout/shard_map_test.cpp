// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/shard_map.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/detect_layout.hpp"
#include "tests/support/families.hpp"
#include "tests/unit/layout/shard_ranks.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace tpx;

namespace {

using test::families;
using test::ranks_of;

/// A torchtitan Llama whose sizes tp and fsdp do not divide.
std::vector<Tensor> titan(int layers = 1) {
    std::vector<Tensor> tensors{{"tok_embeddings.weight", DType::f32, {101, 36}}};
    for (int l = 0; l < layers; ++l) {
        const auto add = [&](std::string_view name, const Shape& shape) {
            tensors.push_back({fmt::format("layers.{}.{}.weight", l, name), DType::f32, shape});
        };
        add("attention_norm", Shape(1, 36));
        add("attention.wq", {36, 36});
        add("attention.wk", {12, 36});
        add("attention.wv", {12, 36});
        add("attention.wo", {36, 36});
        add("ffn_norm", Shape(1, 36));
        add("feed_forward.w1", {77, 36});
        add("feed_forward.w2", {36, 77});
        add("feed_forward.w3", {77, 36});
    }
    tensors.push_back({"norm.weight", DType::f32, Shape(1, 36)});
    tensors.push_back({"output.weight", DType::f32, {101, 36}});
    tensors.push_back({"optimizer.state.norm.weight.step", DType::f32, {}});
    tensors.push_back({"optimizer.state.layers.0.attention.wo.weight.exp_avg", DType::f32, {36, 36}});
    tensors.push_back({"rng.torch", DType::u8, Shape(1, 5056)});
    return tensors;
}

std::vector<Shard> cut(const Reading& reading, const std::vector<Tensor>& tensors, std::size_t t, const char* layout,
                       Cutting cutting = {}) {
    const Layout parsed = parse_layout(layout);
    return ShardMap{parsed, cutting, {}}.shards(reading, tensors[t], reading.meanings[t], stored_sharing(parsed));
}

std::vector<Box> boxes(const std::vector<Shard>& shards) {
    std::vector<Box> all;
    for (const Shard& shard : shards) all.push_back(shard.box);
    return all;
}

/// The checkpoint of a trainer with `layout`, each box written by one of its holders, in turn.
Catalogue stored(const Reading& reading, const std::vector<Tensor>& tensors, const Layout& layout) {
    Catalogue catalogue{.tensors = tensors};
    const ShardMap map{layout, {}, stages_of_layers(layout, layers(reading, tensors))};
    std::size_t turn = 0;
    for (std::uint32_t t = 0; t < tensors.size(); ++t) {
        for (const Shard& shard : map.shards(reading, tensors[t], reading.meanings[t], stored_sharing(layout))) {
            const std::vector<int> ranks = map.ranks(shard, stored_sharing(layout));
            catalogue.pieces.push_back({.tensor = t, .box = shard.box, .rank = ranks[turn++ % ranks.size()]});
        }
    }
    return catalogue;
}

}  // namespace

TEST_CASE("torchtitan is recognized by its names, without a configuration") {
    const std::vector<Tensor> tensors = titan();
    const Reading reading = read(tensors, families(), {});
    REQUIRE(reading.family);
    CHECK(reading.family->name == "llama");
    CHECK(reading.dialect->name == "titan");
    CHECK_FALSE(reading.complete);  // six heads of size six cannot be told from three of size twelve
    CHECK(reading.dims['f'] == 77);
    CHECK(reading.meanings[12].role == Role::step);
    CHECK(reading.meanings[13].role == Role::exp_avg);
    CHECK(reading.meanings[14].kind == Meaning::Kind::extra);
}

TEST_CASE("a name that no rule matches prevents a family match and is reported") {
    std::vector<Tensor> tensors = titan();
    tensors.push_back({"layers.0.attention.wz.weight", DType::f32, {4}});
    const Reading reading = read(tensors, families(), {});
    CHECK_FALSE(reading.family);
    CHECK(
        reading.why_not.starts_with("tensor 'layers.0.attention.wz.weight', titan names: no rule of family 'llama' "
                                    "matches this tensor; pass --rules FILE"));
}

TEST_CASE("FSDP2 and tensor parallelism split like PyTorch") {
    const std::vector<Tensor> tensors = titan();
    const Reading reading = read(tensors, families(), {});
    // The boxes that PyTorch 2.15 stores for a 2 x 2 mesh.
    CHECK(boxes(cut(reading, tensors, 0, "tp=2,fsdp=2")) ==
          std::vector<Box>{{{0, 26}, {0, 36}}, {{26, 51}, {0, 36}}, {{51, 76}, {0, 36}}, {{76, 101}, {0, 36}}});
    CHECK(boxes(cut(reading, tensors, 8, "tp=2,fsdp=2")) ==
          std::vector<Box>{{{0, 18}, {0, 39}}, {{18, 36}, {0, 39}}, {{0, 18}, {39, 77}}, {{18, 36}, {39, 77}}});
    CHECK(boxes(cut(reading, tensors, 1, "tp=2,fsdp=2")) == std::vector<Box>{{{0, 18}}, {{18, 36}}});
    CHECK(boxes(cut(reading, tensors, 8, "fsdp=2,fsdp_dim=1")) ==
          std::vector<Box>{{{0, 18}, {0, 77}}, {{18, 36}, {0, 77}}});
    CHECK(boxes(cut(reading, tensors, 7, "fsdp=2,fsdp_dim=1")) ==
          std::vector<Box>{{{0, 77}, {0, 18}}, {{0, 77}, {18, 36}}});
    CHECK(cut(reading, tensors, 12, "tp=2,fsdp=2").size() == 1);
    CHECK(cut(reading, tensors, 14, "tp=2,fsdp=2").size() == 1);
}

TEST_CASE("shards tile each tensor, and every shard has a holder") {
    const std::vector<Tensor> tensors = titan();
    const Reading reading = read(tensors, families(), {});
    for (const char* text : {"tp=1", "tp=2", "tp=5", "fsdp=3", "fsdp=7,hsdp=2", "tp=3,fsdp=4", "tp=2,fsdp=2,cp=2",
                             "fsdp=2,fsdp_dim=1", "fsdp=200"}) {
        CAPTURE(text);
        const Layout layout = parse_layout(text);
        const ShardMap map{layout, {}, {}};
        for (std::size_t t = 0; t < tensors.size(); ++t) {
            const std::vector<Shard> all = cut(reading, tensors, t, text);
            Index elements = 0;
            for (const Shard& shard : all) {
                elements += volume(shard.box);
                CHECK_FALSE(empty(shard.box));
                CHECK_FALSE(map.ranks(shard, stored_sharing(layout)).empty());
                for (const Shard& other : all) CHECK((&shard == &other || empty(intersect(shard.box, other.box))));
            }
            CHECK(elements == volume(tensors[t].shape));
        }
    }
}

TEST_CASE("each layout is detected from its boxes") {
    const std::vector<Tensor> tensors = titan(2);
    const Reading reading = read(tensors, families(), {});
    for (const char* text : {"tp=1", "tp=2", "fsdp=2", "fsdp=3", "fsdp=4", "tp=2,fsdp=2", "tp=3,fsdp=4",
                             "fsdp=2,fsdp_dim=1", "fsdp=2,hsdp=2", "pp=2", "tp=2,pp=2", "tp=2,pp=2,fsdp=3"}) {
        CAPTURE(text);
        const Layout layout = parse_layout(text);
        const auto found = detect_layout(stored(reading, tensors, layout), reading, {});
        REQUIRE(found);
        CHECK(to_string(*found) == to_string(layout));
    }
    Catalogue odd = stored(reading, tensors, parse_layout("fsdp=2"));
    odd.pieces[0].box[0].end -= 1;
    odd.pieces[1].box[0].begin -= 1;
    CHECK_FALSE(detect_layout(odd, reading, {}));
}

TEST_CASE("sizes of stages that no model has are not taken from Megatron's args") {
    const std::vector<Tensor> tensors{{"norm", DType::f32, Shape(1, 8)}};
    for (const std::int64_t layers : {std::int64_t{-3}, std::int64_t{0}, (std::int64_t{1} << 32) + 2}) {
        CAPTURE(layers);
        const Config args{{"tensor_model_parallel_size", std::int64_t{2}},
                          {"decoder_first_pipeline_num_layers", layers},
                          {"decoder_last_pipeline_num_layers", std::int64_t{3}}};
        const auto found = detect_layout({.tensors = tensors}, read(tensors, {}, args), {.equal = true});
        REQUIRE(found);
        CHECK(found->tp == 2);
        CHECK_FALSE(found->first);
        CHECK(found->last == 3);
    }
}

TEST_CASE("Megatron splits into equal parts or fails with degrees that fit; gate and up are split separately") {
    const Config args{{"num_layers", std::int64_t{2}},
                      {"hidden_size", std::int64_t{12}},
                      {"num_attention_heads", std::int64_t{4}},
                      {"num_query_groups", std::int64_t{2}},
                      {"group_query_attention", true},
                      {"kv_channels", std::int64_t{4}},
                      {"ffn_hidden_size", std::int64_t{6}},
                      {"vocab_size", std::int64_t{7}},
                      {"swiglu", true}};
    std::vector<Tensor> tensors{{"decoder.layers.mlp.linear_fc1.weight", DType::bf16, {2, 12, 12}},
                                {"decoder.layers.self_attention.linear_qkv.weight", DType::bf16, {2, 32, 12}},
                                {"embedding.word_embeddings.weight", DType::bf16, {8, 12}},
                                {"decoder.layers.self_attention.linear_qkv.layer_norm_weight", DType::bf16, {2, 12}},
                                {"decoder.layers.self_attention.linear_proj.weight", DType::bf16, {2, 12, 16}},
                                {"decoder.layers.mlp.linear_fc1.layer_norm_weight", DType::bf16, {2, 12}},
                                {"decoder.layers.mlp.linear_fc2.weight", DType::bf16, {2, 12, 6}},
                                {"decoder.final_layernorm.weight", DType::bf16, {12}},
                                {"output_layer.weight", DType::bf16, {8, 12}}};
    const Reading reading = read(tensors, families(), args);
    REQUIRE(reading.family);
    const Cutting megatron{.equal = true, .by_layer = true};
    const std::vector<Shard> fc1 = cut(reading, tensors, 0, "tp=2", megatron);
    REQUIRE(fc1.size() == 8);
    CHECK(fc1[0].box == Box{{0, 1}, {0, 3}, {0, 12}});
    CHECK(fc1[1].box == Box{{0, 1}, {6, 9}, {0, 12}});
    CHECK(fc1[1].owner.part == 0);
    CHECK(cut(reading, tensors, 1, "tp=4", megatron)[1].box ==
          Box{{0, 1}, {8, 16}, {0, 12}});  // half a KV group per rank
    CHECK_THROWS_WITH_AS(cut(reading, tensors, 0, "tp=4", megatron),
                         "tensor 'decoder.layers.mlp.linear_fc1.weight': 6 rows or columns cannot be split into "
                         "tp=4 equal parts; use tp=1, 2, 3 or 6",
                         Error);
    CHECK_THROWS_WITH_AS(check_layout(reading, parse_layout("tp=3")),
                         "layout: 4 attention heads cannot be split across tp=3; use tp=1, 2 or 4", Error);
}

TEST_CASE("FSDP with expert parallelism splits experts once more") {
    std::vector<Tensor> tensors = titan();
    std::erase_if(tensors, [](const Tensor& tensor) { return tensor.name.find("feed_forward") != std::string::npos; });
    const auto at = static_cast<std::uint32_t>(tensors.size());
    for (const char* name : {"w1", "w3"})
        tensors.push_back({fmt::format("layers.0.moe.experts.{}", name), DType::f32, {4, 12, 36}});
    tensors.push_back({"layers.0.moe.experts.w2", DType::f32, {4, 36, 12}});
    tensors.push_back({"layers.0.moe.router.gate.weight", DType::f32, {4, 36}});
    const Reading reading = read(tensors, families(), {});
    REQUIRE(reading.family->name == "qwen3moe");
    // What PyTorch 2.15 stores for a mesh (fsdp, ep) of 2 x 2, with shard_placement_fn Shard(1) for experts.
    CHECK(boxes(cut(reading, tensors, at, "ep=2,fsdp=2,efsdp=2")) == std::vector<Box>{{{0, 2}, {0, 6}, {0, 36}},
                                                                                      {{0, 2}, {6, 12}, {0, 36}},
                                                                                      {{2, 4}, {0, 6}, {0, 36}},
                                                                                      {{2, 4}, {6, 12}, {0, 36}}});
    CHECK(boxes(cut(reading, tensors, 0, "ep=2,fsdp=2,efsdp=2")) ==
          std::vector<Box>{{{0, 51}, {0, 36}}, {{51, 101}, {0, 36}}});
    // As in torchtitan: of four ranks, two hold the same experts, and FSDP splits these by expert.
    CHECK(boxes(cut(reading, tensors, at, "ep=2,fsdp=4")).at(1) == Box{{1, 2}, {0, 12}, {0, 36}});
    CHECK(boxes(cut(reading, tensors, at, "ep=4,fsdp=8")).at(1) == Box{{0, 1}, {6, 12}, {0, 36}});
    const auto layout = parse_layout("ep=2,fsdp=2,efsdp=2");
    const auto experts =
        ShardMap{layout, {}, {}}.shards(reading, tensors[at], reading.meanings[at], stored_sharing(layout));
    const auto dense =
        ShardMap{layout, {}, {}}.shards(reading, tensors[0], reading.meanings[0], stored_sharing(layout));
    CHECK(ranks_of(layout, experts[0]) == std::vector<int>{0});
    CHECK(ranks_of(layout, experts[1]) == std::vector<int>{2});
    CHECK(ranks_of(layout, experts[2]) == std::vector<int>{1});
    CHECK(ranks_of(layout, dense[1]) == std::vector<int>{2, 3});
    for (const char* text : {"ep=2,fsdp=2,hsdp=2,efsdp=2", "ep=2,fsdp=3,hsdp=2,efsdp=3", "dp=4,ep=4", "ep=4,fsdp=8"}) {
        CAPTURE(text);
        const auto found = detect_layout(stored(reading, tensors, parse_layout(text)), reading, {});
        REQUIRE(found);
        CHECK(to_string(*found) == text);
    }
}

TEST_CASE("Megatron's own layers split tensors that TransformerEngine replicates") {
    const std::vector<Tensor> tensors{
        {"embedding.word_embeddings.weight", DType::bf16, {64, 16}},
        {"decoder.layers.0.self_attention.linear_kv_down_proj.weight", DType::bf16, {12, 16}}};
    for (const bool local : {true, false}) {
        const Config args{{"num_layers", std::int64_t{1}},
                          {"swiglu", true},
                          {"multi_latent_attention", true},
                          {"transformer_impl", std::string{local ? "local" : "transformer_engine"}}};
        Reading reading = read(tensors, families(), args);
        const auto family = std::ranges::find(families(), "deepseek-v3", &Family::name);
        reading.family = &*family;
        reading.dialect = family->dialect("mcore");
        const auto rule = std::ranges::find_if(reading.dialect->rules, [](const Rule& r) {
            return r.name.text() == "decoder.layers.{l<L?}.self_attention.linear_kv_down_proj.weight";
        });
        REQUIRE(rule != reading.dialect->rules.end());
        const Meaning meaning{
            .kind = Meaning::Kind::parameter, .rule = &*rule, .role = Role::weight, .indices = {.layer = 0}};
        const auto cut = ShardMap{parse_layout("tp=2"), {.equal = true}, {}}.shards(
            reading, tensors[1], meaning, stored_sharing(parse_layout("tp=2")));
        CHECK(cut.size() == (local ? 2 : 1));
    }
}
