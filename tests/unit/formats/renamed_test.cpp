// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/conversion.hpp"
#include "formats/convert/missing_parts.hpp"
#include "formats/dcp/driver.hpp"
#include "formats/megatron/driver.hpp"
#include "formats/open_source.hpp"
#include "formats/safetensors/driver.hpp"
#include "lib/core/error.hpp"
#include "tests/support/checkpoints.hpp"
#include "tests/support/families.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>

namespace fs = std::filesystem;
using namespace tpx;
using namespace tpx::formats;

namespace {

using Rename = std::function<std::string(const std::string&)>;
using test::families;

/// llama-small with renamed tensors; those without a new name are omitted.
void write_renamed(const fs::path& folder, const Rename& rename) {
    const fs::path original = "testdata/llama-small/hf";
    const std::string file = read_file(original / "model.safetensors");
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    std::string data;
    nlohmann::json header;
    const nlohmann::json original_header = nlohmann::json::parse(file.substr(sizeof length, length));
    for (const auto& [name, entry] : original_header.items()) {
        if (name == "__metadata__") continue;
        const std::string renamed = rename(name);
        if (renamed.empty()) continue;
        const auto offsets = entry["data_offsets"].get<std::vector<std::uint64_t>>();
        header[renamed] = entry;
        header[renamed]["data_offsets"] = {data.size(), data.size() + offsets[1] - offsets[0]};
        data += file.substr(sizeof length + length + offsets[0], offsets[1] - offsets[0]);
    }
    const std::string text = header.dump();
    length = text.size();
    std::string start(sizeof length, '\0');
    std::memcpy(start.data(), &length, sizeof length);
    test::write_text(folder / "model.safetensors", start + text + data);
    test::write_text(folder / "config.json", read_file(original / "config.json"));
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
    if (const auto at = text.find(from); at != text.npos) text.replace(at, from.size(), to);
    return text;
}

Target target_of(Format format, std::optional<DType> dtype = {}, const std::string& dialect = {}) {
    Target target;
    target.format = format;
    target.dtype = dtype;
    target.dialect = dialect;
    return target;
}

/// The first tensor name after conversion of the folder to `format`, or the error.
std::string converted(const fs::path& folder, Format format, std::optional<DType> dtype = {}) {
    try {
        Source source = open_source(folder, families(), {});
        const Conversion done = convert(source, target_of(format, dtype));
        return done.draft.tensors[0].name;
    } catch (const Error& error) {
        return error.what();
    }
}

bool says(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("names within the wrappers of torch.compile, FSDP and activation checkpointing are those of the model") {
    const std::vector<Rename> wraps{
        [](const std::string& name) { return replaced(name, ".mlp.", "._orig_mod.mlp."); },
        [](const std::string& name) { return replaced(name, ".self_attn.", "._checkpoint_wrapped_module.self_attn."); },
        [](const std::string& name) {
            return "_fsdp_wrapped_module." + replaced(name, ".mlp.", "._fsdp_wrapped_module.mlp.");
        }};
    for (const Rename& wrap : wraps) {
        const test::Scratch scratch;
        write_renamed(scratch.path(), wrap);
        CHECK(converted(scratch.path(), &safetensors_driver) == "model.embed_tokens.weight");
        CHECK(converted(scratch.path(), &torch_dist_driver) == "embedding.word_embeddings.weight");
    }
}

TEST_CASE("two weights whose names differ only in a wrapper stay separate") {
    const test::Scratch scratch;
    write_renamed(scratch.path(), [](const std::string& name) {
        return name == "lm_head.weight" ? "model._orig_mod.norm.weight" : name;
    });
    CHECK(says(converted(scratch.path(), &torch_dist_driver), "_orig_mod"));
}

TEST_CASE("a name that no known wrapper explains is not that of a transformers model") {
    const test::Scratch scratch;
    write_renamed(scratch.path(), [](const std::string& name) { return "a.b.c.d.e." + name; });
    Source source = open_source(scratch.path(), families(), {});
    source.checkpoint.format = &dcp_driver;  // its names need not be those of transformers
    CHECK_THROWS_WITH_AS(convert(source, target_of(&safetensors_driver)),
                         doctest::Contains("--dialect keep leaves the names as they are"), Error);
}

TEST_CASE("adapters and quantized weights are refused with advice") {
    const auto with = [](std::string_view word, Format format, std::optional<DType> dtype = {}) {
        const test::Scratch scratch;
        write_renamed(scratch.path(), [&](const std::string& name) {
            return replaced(name, "model.norm.weight", "model.layers.0.mlp.up_proj." + std::string{word});
        });
        return converted(scratch.path(), format, dtype);
    };
    CHECK(says(with("lora_A.weight", &torch_dist_driver), "--merge-adapter DIR"));
    for (const char* word : {"qweight", "SCB", "weight.absmax", "weight_scale_inv", "weight.quant_state.nf4"}) {
        CAPTURE(word);
        CHECK(says(with(word, &torch_dist_driver), "dequantize the model first"));
        CHECK(says(with(word, &safetensors_driver, DType::f16), "rounding the scales of quantized weights"));
    }
}

TEST_CASE("weights in fp8 or as integers without scales are copied, but not converted") {
    const auto with = [](DType dtype, const Target& target) -> std::string {
        Source source = open_source("testdata/llama-small/hf", families(), {});
        for (Tensor& tensor : source.checkpoint.catalogue.tensors)
            if (says(tensor.name, "proj")) tensor.dtype = dtype;
        try {
            return convert(source, target).draft.tensors[0].name;
        } catch (const Error& error) {
            return error.what();
        }
    };
    for (const DType dtype : {DType::f8_e4m3, DType::f8_e5m2, DType::i8, DType::u8, DType::i16}) {
        CAPTURE(name(dtype));
        const std::string cause = fmt::format("quantized weights ({}) cannot be converted to ", name(dtype));
        for (const Format format : {&torch_dist_driver, &megatron_driver, &dcp_driver})
            CHECK(says(with(dtype, target_of(format)), cause));
        CHECK(says(with(dtype, target_of(&safetensors_driver, DType::f32)), cause + "f32, because their scales"));
        CHECK(says(with(dtype, target_of(&torch_dist_driver)), "'model.layers.0.mlp.down_proj.weight' and 27 other"));
        CHECK(with(dtype, target_of(&safetensors_driver)) == "lm_head.weight");
        CHECK(with(dtype, target_of(&dcp_driver, {}, "keep")) == "lm_head.weight");
    }
}

TEST_CASE("weights in FP8 are cast on request, unless they seem to have scales") {
    const auto target = [](DType dtype) {
        Target made = target_of(&safetensors_driver, dtype);
        made.unscaled = true;
        return made;
    };
    const auto with = [&](const char* folder, DType dtype, const Target& wanted) -> std::string {
        Source source = open_source(folder, families(), {});
        for (Tensor& tensor : source.checkpoint.catalogue.tensors)
            if (says(tensor.name, "proj")) tensor.dtype = dtype;
        try {
            for (const Tensor& tensor : convert(source, wanted).target_tensors)
                if (tensor.dtype != wanted.dtype) return fmt::format("{} is {}", tensor.name, name(tensor.dtype));
            return "cast";
        } catch (const Error& error) {
            return error.what();
        }
    };
    const char* const plain = "testdata/llama-small/hf";
    for (const DType fp8 : {DType::f8_e4m3, DType::f8_e5m2}) {
        CHECK(with(plain, fp8, target(DType::bf16)) == "cast");
        CHECK(with(plain, DType::f32, target(fp8)) == "cast");
        Target bare = target(fp8);
        bare.unscaled = false;
        CHECK(says(with(plain, DType::f32, bare), "unscaled to cast values to FP8 without scales"));
    }
    CHECK(says(with(plain, DType::i8, target(DType::bf16)), "their scales are unknown"));
    CHECK(says(with(plain, DType::f8_e8m0, target(DType::bf16)), "their scales are unknown"));
    CHECK(says(with("testdata/quantized/plain-fp8", DType::f8_e4m3, target(DType::bf16)), "the weights are quantized"));
    Source source = open_source(plain, families(), {});
    Tensor& scale = source.checkpoint.catalogue.tensors[0];
    source.checkpoint.catalogue.tensors[1].dtype = DType::f8_e5m2;
    const std::string weight = source.checkpoint.catalogue.tensors[1].name;
    scale.name = weight.substr(0, weight.rfind('.')) + ".scale_weight";
    CHECK_THROWS_WITH_AS(convert(source, target(DType::bf16)),
                         doctest::Contains(fmt::format("seems to be the scale of '{}'", weight).c_str()), Error);
}

TEST_CASE("weights of a checkpoint with optimizer state do not become FP8") {
    Source source = open_source("testdata/training/dcp", families(), {});
    Target target = target_of(&dcp_driver, DType::f8_e4m3, "keep");
    target.unscaled = true;
    CHECK_THROWS_WITH_AS(convert(source, target), doctest::Contains("is optimizer state, which cannot continue"),
                         Error);
}

TEST_CASE("a model with parts that transformers would initialize at random is not written") {
    const test::Scratch scratch;
    write_renamed(scratch.path(),
                  [](const std::string& name) { return says(name, "layers.1.mlp.gate") ? std::string{} : name; });
    CHECK(says(converted(scratch.path(), &safetensors_driver),
               "the model is incomplete: layer 1: no tensor 'model.layers.1.mlp.gate_proj.weight'"));
    Source source = open_source(scratch.path(), families(), {});
    CHECK_NOTHROW(convert(source, target_of(&safetensors_driver, {}, "keep")));
}
