// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/states.hpp"

#include "formats/rules/rules.hpp"
#include "lib/core/error.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

using namespace tpx;

namespace {

/// A Llama of two layers in torchtitan's names, with its AdamW state.
struct Titan {
    Families families = formats::load_families({});
    Config config{{"model_type", std::string{"llama"}},     {"num_hidden_layers", std::int64_t{2}},
                  {"hidden_size", std::int64_t{8}},         {"num_attention_heads", std::int64_t{4}},
                  {"num_key_value_heads", std::int64_t{2}}, {"intermediate_size", std::int64_t{6}},
                  {"vocab_size", std::int64_t{10}}};
    std::vector<Tensor> tensors;

    void add(const std::string& name, const Shape& shape, DType dtype) {
        tensors.push_back({name, dtype, shape});
        for (const char* state : {"exp_avg", "exp_avg_sq"})
            tensors.push_back({fmt::format("optimizer.state.{}.{}", name, state), DType::f32, shape});
        tensors.push_back({fmt::format("optimizer.state.{}.step", name), DType::f32, {}});
    }

    explicit Titan(DType dtype) {
        add("tok_embeddings.weight", {10, 8}, dtype);
        for (int l = 0; l < 2; ++l) {
            const auto in_layer = [&](const char* name, const Shape& shape) {
                add(fmt::format("layers.{}.{}.weight", l, name), shape, dtype);
            };
            in_layer("attention_norm", Shape(1, 8));
            in_layer("attention.wq", {8, 8});
            in_layer("attention.wk", {4, 8});
            in_layer("attention.wv", {4, 8});
            in_layer("attention.wo", {8, 8});
            in_layer("ffn_norm", Shape(1, 8));
            in_layer("feed_forward.w1", {6, 8});
            in_layer("feed_forward.w2", {8, 6});
            in_layer("feed_forward.w3", {6, 8});
        }
        add("norm.weight", Shape(1, 8), dtype);
        add("output.weight", {10, 8}, dtype);
    }

    Reading reading() const { return read(tensors, families, config); }
};

ExpressedState in(const Reading& source, const std::vector<Tensor>& tensors, const char* dialect,
                  const std::set<std::string>& tags) {
    return express(source, tensors, *source.family->dialect(dialect), {}, 1, tags);
}

std::map<std::string, Tensor> by_name(const ExpressedState& expressed) {
    std::map<std::string, Tensor> found;
    for (const Tensor& tensor : expressed.tensors) CHECK(found.emplace(tensor.name, tensor).second);
    return found;
}

const std::set<std::string> distributed{"dist", "te", "distributed", "masters"};

}  // namespace

TEST_CASE("optimizer state is converted with its parameter, and fused like it") {
    const Titan titan{DType::f32};
    const ExpressedState mcore = in(titan.reading(), titan.tensors, "mcore", distributed);
    const auto found = by_name(mcore);
    CHECK(found.size() == 4 * 9);  // six of layers, stacked; embedding, norm, output
    for (const char* role : {"", "optimizer.state.param.", "optimizer.state.exp_avg.", "optimizer.state.exp_avg_sq."}) {
        const std::string prefix = role;
        REQUIRE(found.contains(prefix + "decoder.layers.self_attention.linear_qkv.weight"));
        CHECK(found.at(prefix + "decoder.layers.self_attention.linear_qkv.weight").shape == Shape{2, 16, 8});
    }
    CHECK(mcore.dropped_names.empty());  // Megatron counts steps per parameter group
    CHECK(mcore.copies.at("master.layers.1.k") == "layers.1.k");
    CHECK(mcore.copies.at("master.embed") == "embed");
}

TEST_CASE("Megatron's plain optimizer has its own names for masters") {
    const Titan titan{DType::bf16};
    const auto found = by_name(in(titan.reading(), titan.tensors, "mcore", {"dist", "te", "masters"}));
    REQUIRE(found.contains("optimizer.state.fp32_param.output_layer.weight"));
    CHECK(found.at("optimizer.state.fp32_param.output_layer.weight").dtype == DType::f32);
    CHECK(found.at("output_layer.weight").dtype == DType::bf16);
}

TEST_CASE("full-precision weights get no masters unless these are requested") {
    const Titan titan{DType::f32};
    const ExpressedState mcore = in(titan.reading(), titan.tensors, "mcore", {"dist", "te"});
    CHECK(by_name(mcore).size() == 3 * 9);
    CHECK(mcore.copies.empty());
}

TEST_CASE("masters become the weights of a framework that has no master weights") {
    const Titan titan{DType::bf16};
    const ExpressedState mcore = in(titan.reading(), titan.tensors, "mcore", distributed);
    const ExpressedState back = in(mcore.reading, mcore.tensors, "titan", {});
    const auto found = by_name(back);
    CHECK(found.size() == 3 * 21);
    CHECK(found.at("layers.1.attention.wk.weight").dtype == DType::f32);
    CHECK(found.contains("optimizer.state.layers.1.attention.wk.weight.exp_avg_sq"));
    CHECK(back.copies.at("layers.1.k") == "master.layers.1.k");
    CHECK(back.copies.size() == 21);
}

TEST_CASE("a dialect without names for optimizer state drops it and reports that") {
    const Titan titan{DType::f32};
    const ExpressedState hf = in(titan.reading(), titan.tensors, "hf", {});
    CHECK(hf.tensors.size() == 21);
    CHECK(hf.dropped_names.size() == 3 * 21);
}

TEST_CASE("masters alone suffice as weights, as with ZeRO 3") {
    const Titan titan{DType::bf16};
    const ExpressedState mcore = in(titan.reading(), titan.tensors, "mcore", distributed);
    std::vector<Tensor> tensors;
    Reading reading = mcore.reading;
    reading.meanings.clear();
    for (std::size_t t = 0; t < mcore.tensors.size(); ++t) {
        if (mcore.reading.meanings[t].role == Role::weight) continue;
        tensors.push_back(mcore.tensors[t]);
        reading.meanings.push_back(mcore.reading.meanings[t]);
    }
    const ExpressedState again = in(reading, tensors, "mcore", distributed);
    CHECK(by_name(again).size() == mcore.tensors.size());
    CHECK(again.copies.at("layers.0.gate") == "master.layers.0.gate");
}

TEST_CASE("a role without a name in the dialect is refused") {
    const Titan titan{DType::f32};
    const Dialect& dialect = *titan.reading().family->dialect("titan");
    CHECK(pattern_of(dialect, Role::exp_avg, {}).pattern == "optimizer.state.*.exp_avg");
    CHECK_THROWS_WITH_AS(pattern_of(dialect, Role::master, {}), "titan names have no place for master", Error);
}
