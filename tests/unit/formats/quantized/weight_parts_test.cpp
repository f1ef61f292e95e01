// SPDX-License-Identifier: Apache-2.0
#include "formats/quantized/weight_parts.hpp"

#include "formats/convert/unknown_tensors.hpp"
#include "formats/quantized/quantization_settings.hpp"
#include "formats/quantized/quantized.hpp"
#include "formats/safetensors/driver.hpp"
#include "formats/settings/config_file.hpp"
#include "formats/state/roles.hpp"
#include "lib/layout/detect_layout.hpp"
#include "lib/layout/shard_map.hpp"
#include "tests/support/families.hpp"
#include "tests/support/scratch.hpp"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace tpx;
using namespace tpx::formats;

namespace {

/// A small Llama or Mixtral in a Hugging Face folder, some weights of which are quantized.
class QuantizedModel {
public:
    static constexpr Index layers = 2, hidden = 8, heads = 2, vocabulary = 16, experts = 2;
    using Store = std::function<void(QuantizedModel&, const std::string& module, const Shape& shape)>;

    /// `store` adds the tensors of weights of modules whose names end with `ending`.
    QuantizedModel(bool has_experts, Index inner, std::string ending, Store store)
        : ending_{std::move(ending)}, store_{std::move(store)} {
        add_weight("model.embed_tokens", {vocabulary, hidden});
        add_weight("lm_head", {vocabulary, hidden});
        add_weight("model.norm", Shape(1, hidden));
        for (Index l = 0; l < layers; ++l) {
            const std::string layer = fmt::format("model.layers.{}.", l);
            for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
                add_weight(layer + norm, Shape(1, hidden));
            for (const char* part : {"q", "k", "v", "o"})
                add_weight(fmt::format("{}self_attn.{}_proj", layer, part), {hidden, hidden});
            if (!has_experts) add_mlp(layer + "mlp.", {"gate_proj", "up_proj", "down_proj"}, inner);
            if (has_experts) add_weight(layer + "block_sparse_moe.gate", {experts, hidden});
            for (Index e = 0; has_experts && e < experts; ++e)
                add_mlp(fmt::format("{}block_sparse_moe.experts.{}.", layer, e), {"w1", "w3", "w2"}, inner);
        }
        config_ = fmt::format(
            R"("num_hidden_layers": {}, "hidden_size": {}, "num_attention_heads": {}, "num_key_value_heads": {},
               "intermediate_size": {}, "vocab_size": {}, "tie_word_embeddings": false, "model_type": "{}")",
            layers, hidden, heads, heads, inner, vocabulary, has_experts ? "mixtral" : "llama");
        if (has_experts) config_ += fmt::format(R"(, "num_local_experts": {})", experts);
    }

    void add(const std::string& name, DType dtype, const Shape& shape) {
        Catalogue& catalogue = source_.checkpoint.catalogue;
        const auto number = static_cast<std::uint32_t>(catalogue.tensors.size());
        catalogue.tensors.push_back({name, dtype, shape});
        catalogue.pieces.push_back({.tensor = number, .box = whole(shape), .strides = row_major(shape)});
    }

    /// The shape that compressed-tensors stores beside packed codes.
    void add_shape(const std::string& name, const Shape& shape) {
        add(name, DType::i64, {2});
        source_.checkpoint.catalogue.pieces.back().offset = bytes_.size();
        for (const std::int64_t size : shape) bytes_.append(reinterpret_cast<const char*>(&size), sizeof size);
    }

    /// The folder as it is read; `quantization`: more members of config.json, with a comma before them.
    Source source(const std::string& quantization = "") {
        Checkpoint& checkpoint = source_.checkpoint;
        std::ofstream{folder_.path() / "values"} << bytes_;
        checkpoint.format = &safetensors_driver;
        checkpoint.catalogue.directory = folder_.path();
        checkpoint.catalogue.files = {{"values", bytes_.size()}};
        checkpoint.config_json = "{" + config_ + quantization + "}";
        checkpoint.config = parse_config_json(checkpoint.config_json);
        source_.families = test::families();
        source_.reading = read_by_names(checkpoint, source_.families, checkpoint.config);
        read_weight_parts(source_);
        REQUIRE(source_.reading.family);
        return source_;
    }

private:
    void add_weight(const std::string& module, const Shape& shape) {
        if (module.ends_with(ending_)) return store_(*this, module, shape);
        add(module + ".weight", DType::bf16, shape);
    }

    void add_mlp(const std::string& place, const std::array<const char*, 3>& names, Index inner) {
        for (const char* name : {names[0], names[1]}) add_weight(place + name, {inner, hidden});
        add_weight(place + names[2], {hidden, inner});
    }

    std::string ending_;
    Store store_;
    std::string config_;
    std::string bytes_;
    Source source_;
    test::Scratch folder_;
};

/// Codes in words of 32 bits along rows, with a scale for each row.
QuantizedModel::Store in_row_words(Index words) {
    return [words](QuantizedModel& model, const std::string& module, const Shape& shape) {
        model.add(module + ".weight_packed", DType::i32, {shape[0], shape[1] == QuantizedModel::hidden ? 1 : words});
        model.add(module + ".weight_scale", DType::bf16, {shape[0], 1});
        model.add_shape(module + ".weight_shape", shape);
    };
}

/// GPTQ with groups of 8 that are sorted by activation.
void in_sorted_groups(QuantizedModel& model, const std::string& module, const Shape& shape) {
    const Index rows = shape[1], columns = shape[0], groups = rows / 8;
    model.add(module + ".qweight", DType::i32, {rows / 8, columns});
    model.add(module + ".scales", DType::f16, {groups, columns});
    model.add(module + ".qzeros", DType::i32, {groups, columns / 8});
    model.add(module + ".g_idx", DType::i32, Shape(1, rows));
}

void in_fp8(QuantizedModel& model, const std::string& module, const Shape& shape) {
    model.add(module + ".weight", DType::f8_e4m3, shape);
    model.add(module + ".weight_scale", DType::f32, {});
}

Target to_layout(const char* layout) { return {.layout = parse_layout(layout), .format = &safetensors_driver}; }

constexpr const char* gptq_settings =
    R"(, "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 8})";

}  // namespace

TEST_CASE("packed codes are split between words only") {
    const auto why = [](Index inner, Index words, const char* layout) {
        QuantizedModel model{false, inner, "down_proj", in_row_words(words)};
        return why_codes_stay_whole(model.source(), to_layout(layout));
    };
    const std::string codes = "tensor 'model.layers.0.mlp.down_proj.weight_packed': ";
    // int4, the last word of a row is padded
    CHECK(why(12, 2, "tp=2") ==
          codes + "blocks of 12 elements cannot be split across tp=2 (a part would end at element 6)");
    CHECK(why(28, 4, "tp=2") ==
          codes + "blocks of 28 elements cannot be split across tp=2 (a part would end at element 14)");
    // int8
    CHECK(why(6, 2, "tp=2") ==
          codes + "blocks of 6 elements cannot be split across tp=2 (a part would end at element 3)");
    CHECK(why(9, 3, "tp=3") ==
          codes + "blocks of 9 elements cannot be split across tp=3 (a part would end at element 3)");
    // whole words
    CHECK(why(24, 3, "tp=2") ==
          codes + "blocks of 8 elements cannot be split across tp=2 (a part would end at element 12)");
    CHECK(why(16, 2, "tp=2").empty());
    CHECK(why(16, 4, "tp=4").empty());
    CHECK(why(12, 2, "pp=2").empty());
}

TEST_CASE("scales of a KV cache are in the layer of its projections") {
    QuantizedModel model{false, 16, "down_proj", in_fp8};
    for (const char* name : {"model.layers.0.self_attn.k_scale", "model.layers.1.self_attn.v_scale",
                             "model.layers.1.self_attn.attn.k_scale"})
        model.add(name, DType::f32, {});
    const Source source = model.source();
    const std::vector<Tensor>& tensors = source.checkpoint.catalogue.tensors;
    const auto layer = [&](std::size_t from_end) {
        const std::size_t t = tensors.size() - from_end;
        return form_of(source.reading, tensors[t], source.reading.meanings[t]).layer;
    };
    CHECK(layer(3) == 0);
    CHECK(layer(2) == 1);
    CHECK(layer(1) == 1);
    CHECK(why_codes_stay_whole(source, to_layout("pp=2")).empty());

    model.add("cache.k_scale", DType::f32, {});
    CHECK(why_codes_stay_whole(model.source(), to_layout("tp=2")).empty());
    CHECK(why_codes_stay_whole(model.source(), to_layout("pp=2")) ==
          "which layer or expert has 'cache.k_scale' is unknown");
}

TEST_CASE("GPTQ's numbered groups stay whole along their own axis") {
    QuantizedModel by_rows{false, 16, "down_proj", in_sorted_groups};
    const Source source = by_rows.source(gptq_settings);
    CHECK(why_codes_stay_whole(source, to_layout("pp=2")).empty());
    CHECK(why_codes_stay_whole(source, to_layout("tp=2")) ==
          "tensor 'model.layers.0.mlp.down_proj.qweight': its g_idx counts groups from the first of the whole weight");
    std::vector<std::string> notes;
    CHECK(test::message_of([&] { check_unknown(source, to_layout("pp=2"), notes); }) == "no error");

    QuantizedModel by_columns{false, 16, "gate_proj", in_sorted_groups};
    CHECK(why_codes_stay_whole(by_columns.source(gptq_settings), to_layout("tp=2")).empty());
}

TEST_CASE("a new degree of tensor parallelism inside experts counts") {
    QuantizedModel model{true, 12, ".w2", in_row_words(2)};
    Source source = model.source();
    source.layout = parse_layout("dp=2");
    const Target target = to_layout("dp=2,etp=2");
    const std::string codes = "tensor 'model.layers.0.block_sparse_moe.experts.0.w2.weight_packed': ";
    CHECK(why_codes_stay_whole(source, target) ==
          codes + "blocks of 12 elements cannot be split across etp=2 (a part would end at element 6)");
    CHECK(needs_values(source, target));
    CHECK(!needs_values(source, to_layout("dp=4")));

    // A tensor is named once.
    for (Meaning& meaning : source.reading.meanings) {
        if (!meaning.weight_part) continue;
        WeightPart part = *meaning.weight_part;
        part.meaning.indices.expert = 7;
        meaning.weight_part = std::make_shared<const WeightPart>(part);
    }
    CHECK(why_codes_stay_whole(source, target) == codes + "expert 7 does not exist: the configuration has 2 experts");
}

TEST_CASE("blocks of experts are detected by their codes") {
    QuantizedModel model{true, 16, "", [](QuantizedModel& made, const std::string& module, const Shape& shape) {
                             if (module.find(".experts.") == module.npos)
                                 made.add(module + ".weight", DType::bf16, shape);
                             else
                                 in_row_words(2)(made, module, shape);
                         }};
    const Source source = model.source();
    const Layout layout = parse_layout("dp=2,ep=2");
    const Cutting cutting{.equal = true};
    const ShardMap map{layout, cutting, {0, 0}};
    Catalogue catalogue = source.checkpoint.catalogue;
    catalogue.pieces.clear();
    std::size_t turn = 0;
    for (std::uint32_t t = 0; t < catalogue.tensors.size(); ++t) {
        for (const Shard& shard :
             map.shards(source.reading, catalogue.tensors[t], source.reading.meanings[t], Sharing::none)) {
            const std::vector<std::int32_t> ranks = map.ranks(shard, Sharing::none);
            catalogue.pieces.push_back({.tensor = t, .box = shard.box, .rank = ranks[turn++ % ranks.size()]});
        }
    }
    const auto found = detect_layout(catalogue, source.reading, cutting);
    REQUIRE(found);
    CHECK(to_string(*found) == "dp=2,ep=2");
}

TEST_CASE("both sections of config.json are about quantization") {
    CHECK(is_quantization_setting("quantization_config.bits"));
    CHECK(is_quantization_setting("compression_config.format"));
    CHECK(!is_quantization_setting("quantization_configs"));
}
