// SPDX-License-Identifier: Apache-2.0
#include "formats/files/model_file.hpp"

#include "formats/open_source.hpp"
#include "lib/change/model_parcels.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/parts.hpp"
#include "tests/support/checkpoints.hpp"
#include "tests/support/families.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>

namespace {

using namespace tpx;
using namespace tpx::formats;
using test::families;

ModelState model(const std::string& name, const Config& settings = {}, std::string_view roles = "weights") {
    return read_model(name, families(), settings, roles);
}

std::string refusal(const std::string& name, const Config& settings = {}, std::string_view roles = "train") {
    try {
        model(name, settings, roles);
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::usage);
        return error.what();
    }
    return "";
}

TEST_CASE("the built-in models have the published numbers of parameters") {
    const std::map<std::string, double> published{
        {"llama3-8b", 8.030e9},    {"llama3-70b", 70.554e9}, {"llama3-405b", 405.853e9}, {"mixtral-8x22b", 140.621e9},
        {"qwen3-235b", 235.094e9}, {"deepseek-v3", 682.5e9}, {"moe-1t", 1.026e12},       {"gpt3-1.3b", 1.3158e9},
        {"gpt3-2.7b", 2.6516e9},   {"gpt3-6.7b", 6.6585e9},  {"gpt3-175b", 174.6e9}};
    CHECK(builtin_models().size() == published.size());
    for (const auto& [name, count] : published) {
        CAPTURE(name);
        CHECK(static_cast<double>(parameters(model(name))) == doctest::Approx(count).epsilon(0.003));
    }
    const Config without_mtp{{"num_nextn_predict_layers", std::int64_t{0}}};
    CHECK(static_cast<double>(parameters(model("deepseek-v3", without_mtp))) ==
          doctest::Approx(671.03e9).epsilon(0.0001));
}

const TensorClass& named(const ModelState& state, std::string_view name) {
    const auto found = std::ranges::find(state.classes, name, &TensorClass::name);
    REQUIRE(found != state.classes.end());
    return *found;
}

bool lacks(const ModelState& state, std::string_view name) {
    return std::ranges::count(state.classes, name, &TensorClass::name) == 0;
}

std::vector<int> layers_between(int begin, int end) {
    std::vector<int> list(end - begin);
    std::iota(list.begin(), list.end(), begin);
    return list;
}

TEST_CASE("dense layers, experts and layers for multi-token prediction are told apart") {
    const ModelState state = model("deepseek-v3", {}, "train");
    CHECK(state.name == "deepseek-v3");
    CHECK(state.layers == 61);
    CHECK(named(state, "gate").layers == layers_between(0, 3));
    CHECK(named(state, "e_gate").layers == layers_between(3, 62));
    CHECK(named(state, "e_gate").experts == 256);
    CHECK(named(state, "e_down").shape == Shape{7168, 2048});
    CHECK(named(state, "e_down").tp_axis == 1);
    CHECK(named(state, "router").shape == Shape{256, 7168});
    CHECK(named(state, "router_bias").layers == layers_between(3, 62));
    CHECK(named(state, "s_up").shape == Shape{2048, 7168});
    CHECK(named(state, "eh_proj").layers == layers_between(61, 62));
    CHECK(named(state, "q_b").shape == Shape{128 * 192, 1536});
    CHECK(named(state, "kv_a").tp_axis == -1);
    CHECK(named(state, "embed").first);
    CHECK(named(state, "embed").last);
    CHECK(lacks(state, "q_full"));
    CHECK(state.tp_divides == std::vector<Index>{128});
    Index bytes = 0;
    for (const StateRole& role : state.roles) bytes += itemsize(role.dtype);
    CHECK(bytes == 14);
    CHECK_FALSE(lacks(model("deepseek-v3", {{"q_lora_rank", nullptr}}), "q_full"));
    CHECK_FALSE(named(model("moe-1t"), "embed").last);
}

TEST_CASE("layers without experts are found by period and by list") {
    Config settings{{"mlp_only_layers", std::string{"5,7"}}, {"decoder_sparse_step", std::int64_t{2}}};
    const ModelState state = model("qwen3-235b", settings);
    std::vector<int> sparse;
    for (int layer = 1; layer < 94; layer += 2) {
        if (layer != 5 && layer != 7) sparse.push_back(layer);
    }
    CHECK(named(state, "e_up").layers == sparse);
    CHECK(named(state, "gate").layers.size() == 94 - sparse.size());
    CHECK(named(state, "q_norm").shape == Shape{128});
    CHECK(lacks(state, "q_bias"));
}

TEST_CASE("Megatron's arguments describe the same model as a config.json") {
    const tpx::test::Scratch folder;
    const auto file = folder.path() / "megatron.toml";
    tpx::test::write_text(file, R"toml(
swiglu = true
multi_latent_attention = true
num_layers = 61
hidden_size = 7168
num_attention_heads = 64
q_lora_rank = 1536
kv_lora_rank = 512
qk_head_dim = 128
qk_pos_emb_head_dim = 64
v_head_dim = 128
ffn_hidden_size = 18432
num_experts = 384
moe_layer_freq = "([0]*1+[1]*60)"
moe_ffn_hidden_size = 2048
moe_shared_expert_intermediate_size = 2048
moe_router_enable_expert_bias = true
vocab_size = 163840
untie_embeddings_and_output_weights = true
)toml");
    const ModelState ours = model(file.string());
    const ModelState known = model("moe-1t");
    CHECK(parameters(ours) == parameters(known));
    CHECK(named(ours, "e_up").layers == named(known, "e_up").layers);
    CHECK(ours.classes.size() == known.classes.size());
}

TEST_CASE("tied embeddings are on both end stages, and need padding to be split") {
    const ModelState state = model("gpt3-6.7b", {}, "train");
    CHECK(named(state, "embed").first);
    CHECK(named(state, "embed").last);
    CHECK(named(state, "embed").pad == 128);
    CHECK(named(state, "embed").shape == Shape{50257, 4096});
    CHECK_FALSE(named(state, "pos").last);
    CHECK(lacks(state, "head"));
    const auto held = held_bytes(state, parse_layout("tp=4,pp=2"));
    CHECK(std::accumulate(held.begin(), held.end(), std::uint64_t{0}) > 14u * parameters(state));
}

TEST_CASE("a change of 16,384 ranks of the largest model is spread within a second") {
    const ModelState state = model("moe-1t", {}, "train");
    const Layout from = parse_layout("tp=8,pp=16,dp=128,ep=64,etp=1,zero=1,first=3,last=2");
    const Layout to = parse_layout("tp=8,pp=12,dp=128,ep=64,etp=1,zero=1,first=6,last=5");
    const std::clock_t begin = std::clock();  // CPU time of this process, as the machine may be busy
    const Parcels parcels = model_parcels(state, from, to);
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    MESSAGE("seconds: " << seconds << ", parcels: " << parcels.parcels.size());
    CHECK(seconds < 1);
    std::uint64_t bytes = 0;
    for (const Parcel& parcel : parcels.parcels) bytes += parcel.bytes;
    CHECK(bytes == 14u * static_cast<std::uint64_t>(parameters(state)));
}

TEST_CASE("valid roles are read, invalid ones are refused") {
    CHECK(parse_roles("train", DType::f16).front().dtype == DType::bf16);
    CHECK(parse_roles("weights", DType::f16).front().dtype == DType::f16);
    const auto roles = parse_roles("weight:f32,exp_avg", DType::bf16);
    CHECK(roles.size() == 2);
    CHECK(roles[0].dtype == DType::f32);
    CHECK(roles[1].dtype == DType::f32);
    CHECK(refusal("llama3-8b", {}, "momentum").starts_with("roles: 'momentum' is not a role; use train"));
    CHECK(refusal("llama3-8b", {}, "weight:x9") ==
          "roles: 'weight:x9': 'x9' is not a dtype; use, for example, bf16 or f32");
    CHECK(refusal("llama3-8b", {}, "weight,weight") == "roles: 'weight' is given twice");
    CHECK(refusal("llama3-8b", {}, "").starts_with("roles: '' is not a role"));
    CHECK(refusal("llama3-8b", {}, "weight,").starts_with("roles: '' is not a role"));
}

TEST_CASE("an invalid model is refused with what is missing or wrong") {
    CHECK(refusal("llama4") ==
          "no such file or built-in model 'llama4'; use a config.json, a TOML file, deepseek-v3, gpt3-1.3b, gpt3-175b, "
          "gpt3-2.7b, gpt3-6.7b, llama3-405b, llama3-70b, llama3-8b, mixtral-8x22b, moe-1t or qwen3-235b");
    CHECK(refusal("llama3-7b").ends_with("; did you mean 'llama3-70b' or 'llama3-8b'?"));
    CHECK(refusal(".").ends_with(".: the folder contains no config.json"));
    CHECK(refusal("llama3-8b", {{"hidden_size", nullptr}}) ==
          "model 'llama3-8b': tensor 'down': size 'h' is unknown; it follows from h = hidden_size");
    CHECK(
        refusal("llama3-8b", {{"num_attention_heads", nullptr}}).ends_with("it follows from n = num_attention_heads"));
    CHECK(refusal("llama3-8b", {{"num_hidden_layers", std::int64_t{-3}}}) ==
          "model 'llama3-8b': size 'l' = -3 is invalid (num_hidden_layers)");
    CHECK(refusal("llama3-8b", {{"num_hidden_layers", std::int64_t{1} << 30}}) ==
          "model 'llama3-8b': 1073741824 layers are more than 100000");
    CHECK(refusal("llama3-8b", {{"vocab_size", std::int64_t{0}}}).ends_with("size 'v' = 0 is invalid (vocab_size)"));
    CHECK(refusal("llama3-8b", {{"hidden_size", std::int64_t{1} << 62}}).find("is invalid") != std::string::npos);
    CHECK(refusal("llama3-8b", {{"intermediate_size", std::int64_t{1} << 39}, {"hidden_size", std::int64_t{1} << 39}})
              .ends_with("is impossible"));
    CHECK(refusal("llama3-8b", {{"model_type", std::string{"no-such-model"}}}) ==
          "model 'llama3-8b': no family of rules has models of model_type 'no-such-model'; give one with --rules");
    const tpx::test::Scratch folder;
    const auto file = folder.path() / "model.toml";
    tpx::test::write_text(file, "hidden_size = 12\n");
    CHECK(refusal(file.string()) ==
          file.string() + ": neither model_type, as in a config.json, nor num_layers, as in Megatron's arguments");
}

TEST_CASE("lists in Megatron's arguments are expanded") {
    CHECK(expand_list("([0]*2+[1]*3)") == "0,0,1,1,1");
    CHECK(expand_list("[0, 1]*2") == "0,1,0,1");
    CHECK(expand_list("[5]") == "5");
    for (const char* text : {"", "relu", "[", "[1", "[1]*", "[1]*-1", "[1]+", "[1]x", "[1]*99999999", "[]", "[1]*0"}) {
        CAPTURE(text);
        CHECK(expand_list(text) == text);
    }
}

/// How many elements each canonical tensor has. (Those of checkpoints have an axis for each factor.)
using Tensors = std::map<std::string, Index>;

Tensors described(const ModelState& state) {
    Tensors tensors;
    for (const TensorClass& kind : state.classes) {
        for (int layer : kind.layers.empty() ? std::vector{-1} : kind.layers) {
            for (Index e = 0; e < std::max<Index>(kind.experts, 1); ++e) {
                const std::string at = layer < 0 ? "" : fmt::format("layers.{}.", layer);
                const std::string expert = kind.experts > 0 ? fmt::format("experts.{}.", e) : "";
                tensors[at + expert + kind.name] = volume(kind.shape);
            }
        }
    }
    return tensors;
}

Tensors stored(const Source& source) {
    Tensors tensors;
    const auto& list = source.checkpoint.catalogue.tensors;
    for (std::size_t i = 0; i < list.size(); ++i) {
        // Codes and scales count as the weight that they store.
        const auto& stored_part = source.reading.meanings[i].weight_part;
        const Tensor& tensor = stored_part ? stored_part->weight : list[i];
        const Meaning& meaning = stored_part ? stored_part->meaning : source.reading.meanings[i];
        if (meaning.kind != Meaning::Kind::parameter || meaning.role != Role::weight || meaning.rule->alias()) continue;
        if (source.checkpoint.shared.contains(tensor.name)) continue;  // a copy of another weight
        // A configuration describes the language model alone.
        if (source.reading.family->tensor(meaning.rule->expression.parts[0]).outer) continue;
        for (const Part& part : parts_of(source.reading, tensor, meaning)) tensors[part.name] = volume(part.shape);
    }
    return tensors;
}

/// The tensors that only one of the two has.
std::string difference(const Tensors& expected, const Tensors& found) {
    std::string text;
    for (const auto& [name, elements] : expected) {
        if (!found.contains(name) || found.at(name) != elements) text += fmt::format("-{} {} ", name, elements);
    }
    for (const auto& [name, elements] : found) {
        if (!expected.contains(name) || expected.at(name) != elements) text += fmt::format("+{} {} ", name, elements);
    }
    return text;
}

/// How many checkpoints under `folder` were read and found to hold what their configuration describes.
int compare_all(const std::filesystem::path& folder) {
    int compared = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator{folder}) {
        const std::string name = entry.path().filename().string();
        if (name != "config.json" && name != "common.pt") continue;
        CAPTURE(entry.path().string());
        std::optional<Source> source;
        try {
            source.emplace(open_source(entry.path().parent_path(), families(), {}));
        } catch (const Error&) {
            continue;  // damaged on purpose
        }
        const Reading& reading = source->reading;
        if (!reading.family || !reading.complete || reading.config.empty()) continue;
        const ModelState state = model_of(*reading.family, reading.source(), reading.config, {});
        CHECK(difference(described(state), stored(*source)) == "");
        ++compared;
    }
    return compared;
}

TEST_CASE("a configuration describes exactly the tensors of its checkpoint") {
    CHECK(compare_all("testdata") >= 3);
    const std::filesystem::path folder = tpx::test::fixtures();
    if (folder.empty()) return;
    CHECK(compare_all(folder / "safetensors") >= 4);
    CHECK(compare_all(folder / "megatron") >= 10);
}

}  // namespace
