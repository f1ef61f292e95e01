// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/parts.hpp"

#include "formats/rules/rules.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/express.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <set>

using namespace tpx;

namespace {

using Random = std::mt19937;

Index pick(Random& random, Index low, Index high) { return std::uniform_int_distribution<Index>{low, high}(random); }

/// Calls `each(x)` for all elements of a box.
template <class Each>
void for_each_element(const Box& box, Each&& each) {
    if (empty(box)) return;
    Tuple<Index> x;
    for (Interval side : box) x.push_back(side.begin);
    while (true) {
        each(x);
        int k = box.size() - 1;
        while (k >= 0 && ++x[k] == box[k].end) x[k] = box[k].begin, --k;
        if (k < 0) return;
    }
}

/// A part as with axes `(a + c)`: one stored axis of random factors followed by a gap, another axis of one factor.
Part random_part(Random& random) {
    Part part{.name = "p"};
    Index step = 1;
    for (int k = 0; k < 3; ++k) {
        const Index size = pick(random, 1, 4);
        part.shape.push_back(size);
        part.axis.push_back(0);
        part.step.push_back(step);
        step *= size;
        if (pick(random, 0, 1) == 1) step += pick(random, 0, 5);
    }
    part.shape.push_back(pick(random, 1, 5));
    part.axis.push_back(1);
    part.step.push_back(1);
    part.offset = {pick(random, 0, 6), pick(random, 0, 2)};
    return part;
}

Interval random_interval(Random& random, Index size) {
    const Index a = pick(random, 0, size);
    const Index b = pick(random, 0, size);
    return {std::min(a, b), std::max(a, b)};
}

}  // namespace

TEST_CASE("cut_out finds each element of a part in a piece exactly once, at its address") {
    Random random{20261121};
    for (int round = 0; round < 3000; ++round) {
        const Part part = random_part(random);
        Piece stored{.tensor = 9, .file = 1, .offset = 100};
        stored.box = {random_interval(random, 90), random_interval(random, 8)};
        stored.strides = {pick(random, 1, 50), pick(random, 1, 50)};
        std::map<Tuple<Index>, std::uint64_t> expected;
        for_each_element(whole(part.shape), [&](const Tuple<Index>& x) {
            Tuple<Index> at{part.offset[0], part.offset[1]};
            for (int k = 0; k < x.size(); ++k) at[part.axis[k]] += x[k] * part.step[k];
            for (int a = 0; a < 2; ++a) {
                if (at[a] < stored.box[a].begin || at[a] >= stored.box[a].end) return;
            }
            expected[x] = 100 + 4 * static_cast<std::uint64_t>((at[0] - stored.box[0].begin) * stored.strides[0] +
                                                               (at[1] - stored.box[1].begin) * stored.strides[1]);
        });
        std::vector<Piece> pieces;
        cut_out(part, stored, 3, 4, pieces);
        std::map<Tuple<Index>, std::uint64_t> found;
        for (const Piece& piece : pieces) {
            CHECK(piece.tensor == 3);
            for_each_element(piece.box, [&](const Tuple<Index>& x) {
                std::uint64_t address = piece.offset;
                for (int k = 0; k < x.size(); ++k)
                    address += 4 * static_cast<std::uint64_t>((x[k] - piece.box[k].begin) * piece.strides[k]);
                CHECK(found.emplace(x, address).second);
            });
        }
        REQUIRE(found == expected);
        CHECK(pieces.size() <= 5);  // 2k-1 for the k = 3 factors of one axis
    }
}

TEST_CASE("fused q, k and v of a stacked torch_dist tensor are in Megatron's order") {
    const Families families = formats::load_families({});
    const Config args{{"num_layers", std::int64_t{2}},
                      {"hidden_size", std::int64_t{12}},
                      {"num_attention_heads", std::int64_t{4}},
                      {"num_query_groups", std::int64_t{2}},
                      {"group_query_attention", true},
                      {"kv_channels", std::int64_t{4}},
                      {"ffn_hidden_size", std::int64_t{6}},
                      {"vocab_size", std::int64_t{7}},
                      {"swiglu", true}};
    const std::vector<Tensor> tensors{
        {"embedding.word_embeddings.weight", DType::bf16, {8, 12}},
        {"decoder.layers.self_attention.linear_qkv.layer_norm_weight", DType::bf16, {2, 12}},
        {"decoder.layers.self_attention.linear_qkv.weight", DType::bf16, {2, 32, 12}},
        {"decoder.layers.self_attention.linear_proj.weight", DType::bf16, {2, 12, 16}},
        {"decoder.layers.mlp.linear_fc1.layer_norm_weight", DType::bf16, {2, 12}},
        {"decoder.layers.mlp.linear_fc1.weight", DType::bf16, {2, 12, 12}},
        {"decoder.layers.mlp.linear_fc2.weight", DType::bf16, {2, 12, 6}},
        {"decoder.final_layernorm.weight", DType::bf16, {12}},
        {"output_layer.weight", DType::bf16, {8, 12}}};
    const Reading reading = read(tensors, families, args);
    REQUIRE(reading.family);
    CHECK(reading.complete);
    CHECK(layers(reading, tensors) == 2);
    const std::vector<Part> parts = parts_of(reading, tensors[2], reading.meanings[2]);
    REQUIRE(parts.size() == 6);
    std::set<Tuple<Index>> covered;
    for (const Part& part : parts) {
        for_each_element(whole(part.shape), [&](const Tuple<Index>& x) {
            Tuple<Index> at = part.offset;
            for (int k = 0; k < x.size(); ++k) at[part.axis[k]] += x[k] * part.step[k];
            CHECK(covered.insert(at).second);
            // Group by group: two query heads, the key head, the value head, of four rows each.
            const Index row = at[1] % 16;
            const std::string expected = fmt::format("layers.{}.{}", at[0], row < 8 ? "q" : row < 12 ? "k" : "v");
            CHECK(part.name == expected);
        });
    }
    CHECK(covered.size() == 2 * 32 * 12);
}

TEST_CASE("a shape that the configuration contradicts is refused with both") {
    const Families families = formats::load_families({});
    const Config config{{"model_type", std::string{"llama"}},
                        {"hidden_size", std::int64_t{8}},
                        {"num_attention_heads", std::int64_t{2}},
                        {"intermediate_size", std::int64_t{3}},
                        {"vocab_size", std::int64_t{5}}};
    std::vector<Tensor> tensors{{"model.embed_tokens.weight", DType::f32, {5, 8}},
                                {"model.norm.weight", DType::f32, {8}}};
    for (const char* name : {"input_layernorm", "post_attention_layernorm"})
        tensors.push_back({fmt::format("model.layers.0.{}.weight", name), DType::f32, {8}});
    for (const char* name : {"q", "k", "v", "o"})
        tensors.push_back({fmt::format("model.layers.0.self_attn.{}_proj.weight", name), DType::f32, {8, 8}});
    for (const char* name : {"gate", "up"})
        tensors.push_back({fmt::format("model.layers.0.mlp.{}_proj.weight", name), DType::f32, {4, 8}});
    tensors.push_back({"model.layers.0.mlp.down_proj.weight", DType::f32, {8, 4}});
    const Reading reading = read(tensors, families, config);
    REQUIRE(reading.family);
    CHECK_THROWS_WITH_AS(
        parts_of(reading, tensors[8], reading.meanings[8]),
        "tensor 'model.layers.0.mlp.gate_proj.weight': shape [4, 8], the configuration asks for [3, 8]", Error);
}

TEST_CASE("a repeated part stores each of its elements several times in a row") {
    const std::string text = R"(
family = "gated"
detect.hf = ["gated"]
[dims]
l = { hf = "layers" }
h = { hf = "hidden" }
g = { hf = "groups" }
m = { hf = "heads" }
d = { hf = "wide" }
[tensors]
q = "l (g m d) h ; tp=g"
gate = "l (g m) h ; tp=g"
[dialects.hf]
rules = [["{l}.q", "q"], ["{l}.gate", "gate"]]
[dialects.mcore]
rules = [["{l}.fused", "q gate*REPEAT -> (g +) h"]]
)";
    const auto family = [&](const std::string& factor) {
        std::string own = text;
        own.replace(own.find("REPEAT"), 6, factor);
        return parse_family(own, "gated.toml");
    };
    CHECK_THROWS_WITH(
        family("m"),
        "gated.toml: dialect 'mcore': rule '{l}.fused': tensor 'gate' has factor 'm' and cannot be repeated by it");
    CHECK_THROWS_WITH(
        family("z"), "gated.toml: dialect 'mcore': rule '{l}.fused': the size of factor 'z' is not declared in [dims]");
    const Families families{std::vector{family("d")}};
    const Config config{{"model_type", "gated"},     {"layers", std::int64_t{1}}, {"hidden", std::int64_t{2}},
                        {"groups", std::int64_t{2}}, {"heads", std::int64_t{2}},  {"wide", std::int64_t{3}}};
    const std::vector<Tensor> tensors{{"0.q", DType::f32, {12, 2}}, {"0.gate", DType::f32, {4, 2}}};
    const Reading reading = read(tensors, families, config);
    REQUIRE(reading.complete);
    const ExpressedState out = express(reading, tensors, *reading.family->dialect("mcore"), {}, 1, {});
    REQUIRE(out.tensors.size() == 1);
    CHECK(out.tensors[0].shape == Shape{24, 2});
    const std::vector<Part> parts = parts_of(out.reading, out.tensors[0], out.reading.meanings[0]);
    REQUIRE(parts.size() == 4);
    for (Index copy = 0; copy < 3; ++copy) {
        const Part& part = parts[static_cast<std::size_t>(copy) + 1];
        CHECK(part.name == "layers.0.gate");
        CHECK(part.repeat == copy);
        CHECK(part.shape == Shape{2, 2, 2});
        // Gate of head 1 in group 1: after the 12 rows of group 0, 6 rows of queries, and 3 rows of head 0.
        CHECK(stored_index(part, {1, 1, 1}) == Tuple<Index>{12 + 6 + 3 + copy, 1});
    }
}
