// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/rank_holdings.hpp"

#include "formats/files/model_file.hpp"
#include "formats/megatron/driver.hpp"
#include "formats/open_source.hpp"
#include "formats/safetensors/driver.hpp"
#include "lib/change/model_parcels.hpp"
#include "lib/core/error.hpp"
#include "tests/support/checkpoints.hpp"
#include "tests/support/families.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/unit/change/random_models.hpp"
#include "tests/unit/formats/convert/parcel_amounts.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tpx;
using namespace tpx::formats;

namespace {

using nlohmann::json;
using test::Amounts;
using test::amounts_of;
using test::difference;
using test::families;
using testing::models::RandomSource;

/// A checkpoint of a small random model: tensors and a configuration.
struct Tiny {
    json config;
    std::vector<Tensor> tensors;
    bool stacked_experts = true;  ///< also true if the model has none
    std::string roles = "weight:f32";

    void add(std::string name, const Shape& shape) { tensors.push_back({std::move(name), DType::f32, shape}); }

    /// Writes a folder as Hugging Face would, with zeros as values.
    void write(const std::filesystem::path& folder) const {
        json header;
        Index offset = 0;
        for (const Tensor& tensor : tensors) {
            const Index end = offset + volume(tensor.shape) * itemsize(tensor.dtype);
            header[tensor.name] = {{"dtype", "F32"},
                                   {"shape", std::vector<Index>(tensor.shape.begin(), tensor.shape.end())},
                                   {"data_offsets", {offset, end}}};
            offset = end;
        }
        std::string text = header.dump();
        text.resize((text.size() + 7) / 8 * 8, ' ');
        const auto length = static_cast<std::uint64_t>(text.size());
        test::write_text(folder / "model.safetensors", std::string{reinterpret_cast<const char*>(&length), 8} + text +
                                                           std::string(static_cast<std::size_t>(offset), '\0'));
        test::write_text(folder / "config.json", config.dump());
    }
};

/// Adds Adam's moments of every tensor, with the names that torchtitan gives them.
void add_moments(Tiny& tiny) {
    const std::vector<Tensor> weights = tiny.tensors;
    for (const Tensor& weight : weights) {
        for (const char* moment : {"exp_avg", "exp_avg_sq"})
            tiny.add(fmt::format("optimizer.state.{}.{}", weight.name, moment), weight.shape);
    }
    tiny.roles = "weight:f32,exp_avg:f32,exp_avg_sq:f32";
}

struct Sizes {
    Index hidden, heads, groups, head, ffn, vocabulary, experts;
    int layers;
};

Sizes random_sizes(RandomSource& random) {
    Sizes sizes{};
    sizes.groups = random.one_of({2, 4});
    sizes.heads = sizes.groups * random.between(1, 2);
    sizes.head = random.one_of({2, 4});
    sizes.hidden = sizes.heads * sizes.head;
    sizes.ffn = random.one_of({8, 12, 24});
    sizes.vocabulary = random.one_of({16, 24});
    sizes.experts = random.one_of({4, 8, 12});
    sizes.layers = random.between(1, 4);
    return sizes;
}

json config_of(const Sizes& n, const char* type) {
    return {{"model_type", type},
            {"hidden_size", n.hidden},
            {"num_hidden_layers", n.layers},
            {"num_attention_heads", n.heads},
            {"num_key_value_heads", n.groups},
            {"head_dim", n.head},
            {"intermediate_size", n.ffn},
            {"vocab_size", n.vocabulary}};
}

Tiny llama(RandomSource& random) {
    const Sizes n = random_sizes(random);
    Tiny tiny{.config = config_of(n, "llama")};
    const bool tied = random.once_in(3);
    tiny.config["tie_word_embeddings"] = tied;
    tiny.add("model.embed_tokens.weight", {n.vocabulary, n.hidden});
    for (int l = 0; l < n.layers; ++l) {
        const auto add = [&](std::string_view name, const Shape& shape) {
            tiny.add(fmt::format("model.layers.{}.{}.weight", l, name), shape);
        };
        add("self_attn.q_proj", {n.heads * n.head, n.hidden});
        add("self_attn.k_proj", {n.groups * n.head, n.hidden});
        add("self_attn.v_proj", {n.groups * n.head, n.hidden});
        add("self_attn.o_proj", {n.hidden, n.heads * n.head});
        add("mlp.gate_proj", {n.ffn, n.hidden});
        add("mlp.up_proj", {n.ffn, n.hidden});
        add("mlp.down_proj", {n.hidden, n.ffn});
        add("input_layernorm", Shape(1, n.hidden));
        add("post_attention_layernorm", Shape(1, n.hidden));
    }
    tiny.add("model.norm.weight", Shape(1, n.hidden));
    if (!tied) tiny.add("lm_head.weight", {n.vocabulary, n.hidden});
    return tiny;
}

/// A Qwen3-MoE with the names of torchtitan, which stacks experts, or of Hugging Face, which does not.
Tiny qwen3_moe(RandomSource& random, bool titan) {
    const Sizes n = random_sizes(random);
    Tiny tiny{.config = config_of(n, "qwen3_moe"), .stacked_experts = titan};
    tiny.config.update({{"num_experts", n.experts}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", n.ffn}});
    tiny.add(titan ? "tok_embeddings.weight" : "model.embed_tokens.weight", {n.vocabulary, n.hidden});
    for (int l = 0; l < n.layers; ++l) {
        const auto add = [&](std::string_view hf, std::string_view own, const Shape& shape) {
            tiny.add(titan ? fmt::format("layers.{}.{}", l, own) : fmt::format("model.layers.{}.{}", l, hf), shape);
        };
        add("self_attn.q_proj.weight", "attention.wq.weight", {n.heads * n.head, n.hidden});
        add("self_attn.k_proj.weight", "attention.wk.weight", {n.groups * n.head, n.hidden});
        add("self_attn.v_proj.weight", "attention.wv.weight", {n.groups * n.head, n.hidden});
        add("self_attn.o_proj.weight", "attention.wo.weight", {n.hidden, n.heads * n.head});
        add("self_attn.q_norm.weight", "attention.q_norm.weight", Shape(1, n.head));
        add("self_attn.k_norm.weight", "attention.k_norm.weight", Shape(1, n.head));
        add("input_layernorm.weight", "attention_norm.weight", Shape(1, n.hidden));
        add("post_attention_layernorm.weight", "ffn_norm.weight", Shape(1, n.hidden));
        add("mlp.gate.weight", "moe.router.gate.weight", {n.experts, n.hidden});
        if (titan) {
            add("", "moe.experts.w1", {n.experts, n.ffn, n.hidden});
            add("", "moe.experts.w2", {n.experts, n.hidden, n.ffn});
            add("", "moe.experts.w3", {n.experts, n.ffn, n.hidden});
        }
        for (Index e = 0; !titan && e < n.experts; ++e) {
            add(fmt::format("mlp.experts.{}.gate_proj.weight", e), "", {n.ffn, n.hidden});
            add(fmt::format("mlp.experts.{}.up_proj.weight", e), "", {n.ffn, n.hidden});
            add(fmt::format("mlp.experts.{}.down_proj.weight", e), "", {n.hidden, n.ffn});
        }
    }
    tiny.add(titan ? "norm.weight" : "model.norm.weight", Shape(1, n.hidden));
    tiny.add(titan ? "output.weight" : "lm_head.weight", {n.vocabulary, n.hidden});
    if (titan) add_moments(tiny);
    return tiny;
}

/// A layout that tpx-layout(5) allows, whatever the model.
Layout layout_for(RandomSource& random, const Tiny& tiny) {
    while (true) {
        Layout layout = testing::models::random_layout(random, tiny.config["num_hidden_layers"]);
        if (!tiny.stacked_experts)
            layout.fsdp = 1;  // FSDP splits tensors as stored, so experts stored one by one would differ
        if (layout.ep > 1 && !tiny.config.contains("num_experts")) continue;
        try {
            parse_layout(to_string(layout));
            expert_grid(layout);
            return layout;
        } catch (const Error&) {
        }
    }
}

}  // namespace

TEST_CASE("a model description and a checkpoint of the model give the same parcels") {
    RandomSource random{17};
    const int rounds = test::is_sanitized ? 300 : 1500;
    int done = 0;
    for (int round = 0; round < rounds; ++round) {
        const test::Scratch scratch;
        const int kind = random.between(0, 2);
        const Tiny tiny = kind == 0 ? llama(random) : qwen3_moe(random, kind == 1);
        tiny.write(scratch.path());
        const Layout from = layout_for(random, tiny);
        Layout to = layout_for(random, tiny);
        // Megatron fuses tensors and knows neither fsdp nor the later stages of ZeRO.
        const bool megatron = kind != 1 && random.once_in(2);
        const Format format = megatron ? &torch_dist_driver : &safetensors_driver;
        if (megatron) to.fsdp = 1;
        if (megatron) to.zero = std::min(to.zero, 1);
        CAPTURE(round);
        CAPTURE(kind);
        CAPTURE(megatron);
        CAPTURE(tiny.config.dump());
        CAPTURE(to_string(from));
        CAPTURE(to_string(to));
        const Config unpadded{{"make_vocab_size_divisible_by", std::int64_t{1}}};
        const ModelState model =
            read_model((scratch.path() / "config.json").string(), families(), unpadded, tiny.roles);
        // A stacked tensor that keeps its name is one piece, while its experts are separate tensors in the description.
        const bool stacked = kind == 1;
        Amounts by_class;
        try {
            by_class = amounts_of(model_parcels(model, from, to), stacked);
        } catch (const Error& error) {
            CHECK(error.exit() == Exit::usage);
            continue;
        }
        ++done;
        Source source = open_source(scratch.path(), families(), {});
        const Target target{.layout = to, .format = format, .config = unpadded};
        const Amounts pieces = amounts_of(test::parcels_by_piece(source, target, from), stacked);
        CHECK(difference(pieces, by_class) == "");
        REQUIRE(difference(by_class, pieces) == "");
    }
    CHECK(done > rounds / 3);
}
