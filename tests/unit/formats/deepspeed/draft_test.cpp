// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/conversion.hpp"
#include "formats/convert/keep_weights.hpp"
#include "formats/deepspeed/deepspeed.hpp"
#include "formats/deepspeed/driver.hpp"
#include "formats/deepspeed/regroup.hpp"
#include "formats/open_source.hpp"
#include "formats/safetensors/driver.hpp"
#include "tests/support/chunks.hpp"
#include "tests/unit/formats/deepspeed/samples.hpp"

#include <doctest/doctest.h>

#include <cstring>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;
using test::mpu;
using test::round_robin;
using test::zero3;

nlohmann::json tensors_of(const Checkpoint& checkpoint) {
    check_no_holes(checkpoint.catalogue);
    return test::describe(checkpoint.catalogue.tensors, test::assemble(checkpoint.catalogue));
}

/// An f32 value's bits as bf16, rounded to the nearest, ties to even.
std::string in_bf16(const std::string& bytes) {
    std::string rounded;
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint32_t)) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, bytes.data() + at, sizeof bits);
        bits += 0x7fff + (bits >> 16 & 1);
        rounded.push_back(static_cast<char>(bits >> 16 & 0xff));
        rounded.push_back(static_cast<char>(bits >> 24));
    }
    return rounded;
}

/// Writes the pieces of a draft element by element, and its other bytes unchanged.
void write(const Draft& draft, const std::map<std::string, std::string>& tensors, const fs::path& directory) {
    std::vector<std::string> files;
    for (const FileEntry& file : draft.files) files.emplace_back(file.size, '\0');
    for (const Draft::Fixed& fixed : draft.fixed)
        files[fixed.file].replace(fixed.offset, fixed.bytes.size(), fixed.bytes);
    for (const Draft::Copy& copy : draft.copies) {
        const std::string from = read_file(copy.source);
        REQUIRE(copy.source_offset + copy.length <= from.size());
        REQUIRE(copy.offset + copy.length <= files[copy.file].size());
        files[copy.file].replace(copy.offset, copy.length, from, copy.source_offset, copy.length);
    }
    for (const Piece& piece : draft.pieces) {
        const Tensor& tensor = draft.tensors[piece.tensor];
        const auto size = static_cast<std::size_t>(itemsize(tensor.dtype));
        test::for_each_element(tensor.shape, piece, [&](Index from, Index to) {
            files[piece.file].replace(piece.offset + std::size_t(to) * size, size, tensors.at(tensor.name),
                                      std::size_t(from) * size, size);
        });
    }
    for (std::size_t f = 0; f < files.size(); ++f) test::write_text(directory / draft.files[f].path, files[f]);
}

/// `source` for `layout`, or as a universal checkpoint, read again.
Checkpoint made(const fs::path& folder, Format format, std::string_view layout, const fs::path& out) {
    Source source = open_source(folder, {}, {});
    auto bytes = test::assemble(source.checkpoint.catalogue);
    const Conversion conversion = convert(source, {.layout = parse_layout(layout), .format = format});
    for (const Tensor& tensor : conversion.draft.tensors) {
        if (tensor.dtype == DType::bf16 && !bytes.contains(tensor.name))
            bytes[tensor.name] = in_bf16(bytes.at(tensor.name + "/fp32"));
    }
    write(conversion.draft, bytes, out);
    return open_deepspeed(out);
}

std::string refusal_without_rules(const fs::path& folder, Format format, std::string_view layout) {
    return test::error_of([&] {
        Source source = open_source(folder, {}, {});
        convert(source, {.layout = parse_layout(layout), .format = format});
    });
}

}  // namespace

TEST_CASE("partitions are resharded to any number of data ranks, and back") {
    for (const auto& [folder, tp] : {std::pair{round_robin, ""}, {zero3, ""}, {mpu, "tp=2,"}}) {
        const nlohmann::json want = tensors_of(open_deepspeed(folder));
        for (const int dp : {1, 3, 5, 8}) {
            CAPTURE(folder.string());
            CAPTURE(dp);
            const test::Scratch there, back;
            const Checkpoint other = made(folder, &deepspeed_driver, fmt::format("{}dp={}", tp, dp), there.path());
            CHECK(other.layout->dp == dp);
            CHECK(tensors_of(other) == want);
            CHECK(tensors_of(made(there.path(), &deepspeed_driver, fmt::format("{}dp=2", tp), back.path())) == want);
        }
    }
}

TEST_CASE("the same number of ranks makes the same partitions") {
    const test::Scratch out;
    made(zero3, &deepspeed_driver, "dp=2", out.path());
    const auto flats = [](const fs::path& folder, int d) {
        const auto archive = torch::Archive::open(
            folder / fmt::format("global_step2/bf16_zero_pp_rank_{}_mp_rank_00_optim_states.pt", d));
        std::vector<std::pair<std::string, Shape>> all;
        for (const auto& [name, tensor] : archive.tensors()) all.emplace_back(name, tensor.shape);
        return all;
    };
    for (int d : {0, 1}) CHECK(flats(out.path(), d) == flats(zero3, d));
}

TEST_CASE("universal checkpoints contain all states, and record how slices are split") {
    for (const fs::path& folder : {zero3, mpu, round_robin}) {
        CAPTURE(folder.string());
        const test::Scratch out;
        const Checkpoint universal = made(folder, &universal_driver, "tp=1", out.path());
        CHECK(universal.format == &universal_driver);
        CHECK(tensors_of(universal) == tensors_of(open_deepspeed(folder)));
    }
    const test::Scratch out;
    made(mpu, &universal_driver, "tp=1", out.path());
    const fs::path zero = out.path() / "global_step2_universal/zero/";
    const auto state = [&](const std::string& name) {
        return torch::Archive::open(zero / ("language_model." + name + ".weight") / "fp32.pt");
    };
    const auto glu = state("encoder.layers.0.mlp.dense_h_to_4h");
    CHECK(glu.root().at("cat_dim").as_int() == 0);
    CHECK(glu.root().at("param_n_sub_params").as_int() == 2);
    CHECK(state("encoder.layers.0.mlp.dense_4h_to_h").root().at("cat_dim").as_int() == 1);
    CHECK(!state("encoder.layers.0.input_layernorm").root().find("cat_dim"));
    CHECK(state("embedding.word_embeddings").root().at("vocab_tensor").as_bool());
    CHECK(read_file(out.path() / "latest_universal") == "global_step2_universal");
}

/// Tensors without the weights: ZeRO 3 and universal checkpoints of pipelines have none.
nlohmann::json states_of(const Checkpoint& checkpoint) {
    nlohmann::json all = tensors_of(checkpoint);
    for (std::size_t t = 0; t < checkpoint.roles.size(); ++t)
        if (checkpoint.roles[t] == Role::weight) all.erase(checkpoint.catalogue.tensors[t].name);
    return all;
}

TEST_CASE("ZeRO stages become each other, and universal checkpoints become any stage") {
    for (const auto& [folder, tp] : {std::pair{round_robin, ""}, {zero3, ""}, {mpu, "tp=2,"}}) {
        const Checkpoint source = open_deepspeed(folder);
        const nlohmann::json want = states_of(source);
        const test::Scratch universal;
        made(folder, &universal_driver, "tp=1", universal.path());
        for (const int zero : {1, 2, 3}) {
            if (folder == mpu && zero > 1) continue;  // BF16_Optimizer
            CAPTURE(folder.string());
            CAPTURE(zero);
            const test::Scratch there, back, of_universal;
            const Checkpoint other =
                made(folder, &deepspeed_driver, fmt::format("{}dp=3,zero={}", tp, zero), there.path());
            CHECK(other.layout->zero == zero);
            CHECK(states_of(other) == want);
            const auto stage = fmt::format("{}dp=2,zero={}", tp, source.layout->zero);
            CHECK(states_of(made(there.path(), &deepspeed_driver, stage, back.path())) == want);
            CHECK(states_of(made(universal.path(), &deepspeed_driver, fmt::format("{}dp=3,zero={}", tp, zero),
                                 of_universal.path())) == want);
        }
    }
}

TEST_CASE("weights of ZeRO 3 are its masters in the training dtype") {
    const test::Scratch there, back;
    const Checkpoint source = open_deepspeed(round_robin);
    made(round_robin, &deepspeed_driver, "dp=2,zero=3", there.path());
    CHECK(made(there.path(), &deepspeed_driver, "dp=4,zero=2", back.path()).catalogue.tensors.size() ==
          source.catalogue.tensors.size());
}

TEST_CASE("tensor parallelism changes as described by universal_checkpoint_info") {
    const nlohmann::json want = tensors_of(open_deepspeed(mpu));
    for (const char* layout : {"tp=1,dp=3", "tp=4,dp=1", "tp=2,dp=2"}) {
        CAPTURE(layout);
        const test::Scratch there, back;
        if (std::string_view{layout} == "tp=4,dp=1") {
            CHECK(refusal_without_rules(mpu, &deepspeed_driver, layout).find("tp=4 does not divide axis") !=
                  std::string::npos);
            continue;
        }
        CHECK(tensors_of(made(mpu, &deepspeed_driver, layout, there.path())) == want);
        CHECK(tensors_of(made(there.path(), &deepspeed_driver, "tp=2,dp=2", back.path())) == want);
    }
}

TEST_CASE("changes that DeepSpeed's files cannot represent are refused") {
    CHECK(refusal_without_rules(mpu, &deepspeed_driver, "tp=2,pp=2,dp=2").find("pp can change only for the layers") !=
          std::string::npos);
    CHECK(refusal_without_rules(mpu, &deepspeed_driver, "tp=2,dp=2,zero=3")
              .find("BF16_Optimizer's state cannot become") != std::string::npos);
    CHECK(refusal_without_rules(zero3, &deepspeed_driver, "tp=2,dp=2").find("does not record how tensors are split") !=
          std::string::npos);
    CHECK(refusal_without_rules(zero3, &deepspeed_driver, "pp=2,dp=2").find("zero=3 does not support pipelines") !=
          std::string::npos);
    CHECK(refusal_without_rules(zero3, &safetensors_driver, "tp=1")
              .find("64 tensors of optimizer state cannot be stored") == 0);
    CHECK(refusal_without_rules("testdata/llama-hf", &deepspeed_driver, "dp=2")
              .find("order of parameters in DeepSpeed's flat buffers is unknown") != std::string::npos);
}

TEST_CASE("a checkpoint without its optimizer consists of its weights; for ZeRO 3, of its masters") {
    Source source = open_source(zero3, {}, {});
    keep_weights(source, false);
    const nlohmann::json found = tensors_of(source.checkpoint);
    CHECK(found == nlohmann::json::parse(read_file(zero3.string() + ".json"))["zero_to_fp32"]);
    Source stage2 = open_source(round_robin, {}, {});
    keep_weights(stage2, true);
    CHECK(tensors_of(stage2.checkpoint) ==
          nlohmann::json::parse(read_file(round_robin.string() + ".json"))["zero_to_fp32"]);
    Source weights = open_source(round_robin, {}, {});
    keep_weights(weights, false);
    CHECK(tensors_of(weights.checkpoint) ==
          nlohmann::json::parse(read_file(round_robin.string() + ".json"))["tensors"]);
}

TEST_CASE("sub-groups end where a rank's parts reach the size, whatever the number of ranks") {
    using deepspeed::ParameterGroup;
    const ParameterGroup a{{"a", {8}}, {"b", {8}}, {"c", {2}}};
    CHECK(deepspeed::cut_subgroups(a, 8, 1) == std::vector<ParameterGroup>{{a[0]}, {a[1]}, {a[2]}});
    CHECK(deepspeed::cut_subgroups(a, 8, 2) == std::vector<ParameterGroup>{{a[0], a[1]}, {a[2]}});
    CHECK(deepspeed::cut_subgroups(a, 8, 4) == std::vector<ParameterGroup>{a});
}

TEST_CASE("the round-robin order is redistributed") {
    deepspeed::ParameterGroup group;
    for (const char* name : {"a", "b", "c", "d", "e"}) group.emplace_back(name, Shape{1});
    const auto names = [](const deepspeed::ParameterGroup& dealt) {
        std::string all;
        for (const auto& [name, shape] : dealt) all += name;
        return all;
    };
    CHECK(names(deepspeed::round_robin_order(group, 2)) == "acebd");
    CHECK(names(deepspeed::round_robin_order(group, 1)) == "abcde");
    CHECK(names(deepspeed::round_robin_order(group, 9)) == "abcde");
    const std::vector<std::string> module{"a", "x", "b", "c", "d", "e"};
    CHECK(names(deepspeed::reorder_round_robin(deepspeed::round_robin_order(group, 2), module, 2, 3)) == "adbec");
    CHECK_THROWS(deepspeed::reorder_round_robin(group, module, 2, 3));
}

}  // namespace tpx::formats
