// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/layer_ties.hpp"

#include "formats/rules/rules.hpp"
#include "lib/core/error.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

using namespace tpx;

namespace {

/// A Gemma 4 of two layers: one with sliding-window attention and one with full attention, whose values are tied to the
/// keys.
struct Gemma {
    Families families = formats::load_families({});
    Config config{{"model_type", std::string{"gemma4_text"}},
                  {"layer_types", std::string{"sliding_attention,full_attention"}},
                  {"attention_k_eq_v", true},
                  {"tie_word_embeddings", true},
                  {"num_hidden_layers", std::int64_t{2}},
                  {"num_kv_shared_layers", std::int64_t{0}},
                  {"hidden_size", std::int64_t{24}},
                  {"hidden_size_per_layer_input", std::int64_t{0}},
                  {"num_attention_heads", std::int64_t{4}},
                  {"num_key_value_heads", std::int64_t{2}},
                  {"head_dim", std::int64_t{8}},
                  {"global_head_dim", std::int64_t{12}},
                  {"intermediate_size", std::int64_t{40}},
                  {"vocab_size", std::int64_t{96}}};
    std::vector<Tensor> tensors;

    void add(const std::string& name, const Shape& shape) { tensors.push_back({name, DType::f32, shape}); }

    Gemma() {
        add("model.embed_tokens.weight", {96, 24});
        for (int l = 0; l < 2; ++l) {
            const Index head = l == 0 ? 8 : 12;
            const auto in_layer = [&](const char* name, const Shape& shape) {
                add(fmt::format("model.layers.{}.{}.weight", l, name), shape);
            };
            for (const char* norm : {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                                     "post_feedforward_layernorm"})
                in_layer(norm, Shape(1, 24));
            in_layer("self_attn.q_proj", {4 * head, 24});
            in_layer("self_attn.k_proj", {2 * head, 24});
            if (l == 0) in_layer("self_attn.v_proj", {2 * head, 24});
            in_layer("self_attn.o_proj", {24, 4 * head});
            in_layer("self_attn.q_norm", Shape(1, head));
            in_layer("self_attn.k_norm", Shape(1, head));
            in_layer("mlp.gate_proj", {40, 24});
            in_layer("mlp.up_proj", {40, 24});
            in_layer("mlp.down_proj", {24, 40});
        }
        add("model.norm.weight", Shape(1, 24));
    }

    ExpressedState in(const char* dialect) const {
        const Reading source = read(tensors, families, config);
        REQUIRE(source.family != nullptr);
        return express(source, tensors, *source.family->dialect(dialect),
                       {{"make_vocab_size_divisible_by", std::int64_t{1}}}, 1, {"te"});
    }
};

using Names = std::map<std::string, std::string>;

}  // namespace

TEST_CASE("a dialect that fuses keys and values gets copies of tied keys") {
    const ExpressedState mcore = Gemma{}.in("mcore");
    CHECK(mcore.copies == Names{{"layers.1.v", "layers.1.k"}});
    CHECK(mcore.dropped_ties.empty());
}

TEST_CASE("values are not copied from keys unless the configuration ties them") {
    Gemma lacking;
    std::erase_if(lacking.tensors,
                  [](const Tensor& tensor) { return tensor.name == "model.layers.0.self_attn.v_proj.weight"; });
    CHECK_THROWS_WITH_AS(lacking.in("mcore"),
                         "layer 0: tensor 'v' is missing; the configuration does not tie it to 'k'", Error);
    Gemma untied;
    untied.config["attention_k_eq_v"] = false;
    CHECK_THROWS_WITH_AS(untied.in("mcore"), "layer 1: tensor 'v' is missing; the configuration does not tie it to 'k'",
                         Error);
}

TEST_CASE("values that a dialect omits must equal the keys") {
    Gemma gemma;
    const std::vector<Tensor> stored = gemma.tensors;
    gemma.tensors = gemma.in("mcore").tensors;
    const ExpressedState hf = gemma.in("hf");
    CHECK(hf.dropped_ties == Names{{"layers.1.v", "layers.1.k"}});
    CHECK(hf.tensors.size() == stored.size());
    CHECK(std::ranges::none_of(
        hf.tensors, [](const Tensor& tensor) { return tensor.name == "model.layers.1.self_attn.v_proj.weight"; }));
    gemma.config["attention_k_eq_v"] = false;
    const ExpressedState both = gemma.in("hf");
    CHECK(both.dropped_ties.empty());
    CHECK(both.tensors.size() == stored.size() + 1);
}

TEST_CASE("optimizer state of tied values is refused") {
    Gemma gemma;
    const std::vector<Tensor> weights = gemma.tensors;
    for (const Tensor& tensor : weights)
        for (const char* state : {"exp_avg", "exp_avg_sq"})
            gemma.add(fmt::format("optimizer.state.{}.{}", tensor.name, state), tensor.shape);
    CHECK_THROWS_WITH_AS(gemma.in("mcore"),
                         "optimizer state of tied values ('v' is 'k') cannot be converted to mcore names; "
                         "--drop optimizer converts the weights",
                         Error);
}
