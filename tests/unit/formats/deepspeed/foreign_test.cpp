// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/conversion.hpp"
#include "formats/dcp/driver.hpp"
#include "formats/deepspeed/driver.hpp"
#include "formats/megatron/driver.hpp"
#include "formats/open_source.hpp"
#include "formats/state/adam.hpp"
#include "lib/layout/express.hpp"
#include "tests/support/chunks.hpp"
#include "tests/support/families.hpp"
#include "tests/unit/formats/deepspeed/samples.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;
using test::families;
using test::mpu;
using test::round_robin;
using test::zero3;

const fs::path megatron = "testdata/llama-opt/legacy-tp2-dp2";

Conversion into(const fs::path& path, Format format, std::string_view layout, std::optional<DType> dtype = {}) {
    Source source = open_source(path, families(), {});
    return convert(source, {.layout = parse_layout(layout), .format = format, .dtype = dtype});
}

std::string refusal(const fs::path& path, Format format, std::string_view layout) {
    return test::error_of([&] { into(path, format, layout); });
}

std::set<std::string> names(const Conversion& conversion) {
    std::set<std::string> found;
    for (const Tensor& tensor : conversion.draft.tensors) found.insert(tensor.name);
    return found;
}

bool has_file(const Conversion& conversion, const fs::path& path) {
    return std::ranges::find(conversion.draft.files, path, &FileEntry::path) != conversion.draft.files.end();
}

}  // namespace

TEST_CASE("the settings of DeepSpeed's groups are those of their parameters") {
    for (const fs::path& path : {round_robin, zero3}) {
        CAPTURE(path.string());
        Source source = open_source(path, {}, {});
        const Adam adam = adam_of(source).value();
        CHECK(adam.step == 2);
        const AdamSettings& weight = adam.of("blocks.0.up.weight/exp_avg", 2);
        CHECK(weight == AdamSettings{0.001, 0.001, 0.9, 0.95, 1e-8, 0.1});
        CHECK(adam.of("blocks.0.up.bias/exp_avg", 1) == AdamSettings{0.002, 0.002, 0.9, 0.95, 1e-8, 0});
        CHECK(adam.of("gain/exp_avg", 1).lr == 0.0005);
    }
    Source alike = open_source(mpu, {}, {});
    const Adam adam = adam_of(alike).value();
    CHECK(adam.own.empty());
    CHECK(adam.matrices.weight_decay == 0.1);
    CHECK(adam.vectors.weight_decay == 0);
}

TEST_CASE("names of an unknown family get torch's names in a DCP checkpoint, with master weights") {
    for (const fs::path& path : {round_robin, zero3, mpu}) {
        CAPTURE(path.string());
        Source source = open_source(path, families(), {});
        const Conversion made = into(path, &dcp_driver, "tp=1");
        const std::set<std::string> found = names(made);
        for (std::size_t t = 0; t < source.checkpoint.roles.size(); ++t) {
            const std::string& name = source.checkpoint.catalogue.tensors[t].name;
            const std::string parameter = name.substr(0, name.rfind('/'));
            const Role role = source.checkpoint.roles[t];
            if (role == Role::weight || role == Role::master) CHECK(found.contains(parameter));
            if (role == Role::exp_avg || role == Role::exp_avg_sq)
                CHECK(found.contains(fmt::format("optimizer.state.{}.{}", parameter, role)));
        }
        for (const Tensor& tensor : made.draft.tensors) CHECK_FALSE(tensor.name.find('/') != tensor.name.npos);
    }
}

TEST_CASE("a universal checkpoint is made from another framework's, with rounded weights") {
    const Conversion made = into(megatron, &universal_driver, "tp=1");
    const std::set<std::string> found = names(made);
    CHECK(found.contains("model.layers.1.self_attn.q_proj.weight/fp32"));
    CHECK(found.contains("model.norm.weight/exp_avg_sq"));
    const fs::path folder = "global_step10_universal";
    CHECK(has_file(made, folder / "mp_rank_00_model_states.pt"));
    CHECK(has_file(made, folder / "zero/optimizer_state.pt"));
    CHECK(has_file(made, folder / "zero/lm_head.weight/exp_avg.pt"));
    CHECK(has_file(made, folder / "zero/lm_head.weight/step.pt"));
    CHECK(has_file(made, "latest_universal"));
    const Conversion third = into(megatron, &universal_driver, "zero=3");
    CHECK(has_file(third, folder / "zero_pp_rank_0_mp_rank_00_model_states.pt"));
    CHECK_FALSE(has_file(third, folder / "zero/lm_head.weight/step.pt"));
    CHECK(std::ranges::any_of(made.notes, [](const std::string& note) {
        return note.starts_with("parameter groups: 16 with weight_decay");
    }));
}

TEST_CASE("experts are recognized in transformers 5's form in memory, and written in it on request") {
    const Config config{{"model_type", std::string{"mixtral"}},   {"hidden_size", std::int64_t{8}},
                        {"num_attention_heads", std::int64_t{2}}, {"num_hidden_layers", std::int64_t{1}},
                        {"num_local_experts", std::int64_t{3}},   {"intermediate_size", std::int64_t{6}},
                        {"num_key_value_heads", std::int64_t{2}}};
    const std::string layer = "model.layers.0.";
    std::vector<Tensor> tensors{{"model.embed_tokens.weight", DType::f32, {10, 8}},
                                {"model.norm.weight", DType::f32, {8}},
                                {"lm_head.weight", DType::f32, {10, 8}},
                                {layer + "input_layernorm.weight", DType::f32, {8}},
                                {layer + "post_attention_layernorm.weight", DType::f32, {8}},
                                {layer + "mlp.gate.weight", DType::f32, {3, 8}},
                                {layer + "mlp.experts.gate_up_proj", DType::f32, {3, 12, 8}},
                                {layer + "mlp.experts.down_proj", DType::f32, {3, 8, 6}}};
    for (const char* name : {"q", "k", "v", "o"})
        tensors.push_back({fmt::format("{}self_attn.{}_proj.weight", layer, name), DType::f32, {8, 8}});
    const Reading reading = read(tensors, families(), config);
    REQUIRE(reading.family != nullptr);
    CHECK(reading.unknown.empty());
    const Dialect& dialect = *reading.family->dialect("hf");
    const auto names_of = [&](const std::set<std::string>& tags) {
        std::set<std::string> found;
        for (const Tensor& tensor : express(reading, tensors, dialect, config, 1, tags).tensors)
            found.insert(tensor.name + to_string(tensor.shape));
        return found;
    };
    std::set<std::string> own;
    for (const Tensor& tensor : tensors) own.insert(tensor.name + to_string(tensor.shape));
    CHECK(names_of({"module"}) == own);
    const std::set<std::string> filed = names_of({});
    CHECK(filed.contains(layer + "block_sparse_moe.gate.weight[3, 8]"));
    CHECK(filed.contains(layer + "block_sparse_moe.experts.2.w2.weight[8, 6]"));
    CHECK(filed.size() == own.size() - 2 + 9);
}

TEST_CASE("optimizer state with torch's names is recognized whatever the model's names are") {
    const Source source = open_source("testdata/llama-hf", families(), {});
    std::vector<Tensor> tensors = source.checkpoint.catalogue.tensors;
    const std::size_t count = tensors.size();
    for (std::size_t t = 0; t < count; ++t)
        tensors.push_back({fmt::format("optim.state.{}.exp_avg", tensors[t].name), DType::f32, tensors[t].shape});
    const Reading reading = read(tensors, families(), source.reading.config);
    CHECK(reading.unknown.empty());
    for (std::size_t t = 0; t < count; ++t) {
        CHECK(reading.meanings[count + t].role == Role::exp_avg);
        CHECK(reading.meanings[count + t].rule == reading.meanings[t].rule);
    }
}

TEST_CASE("a source without information that DeepSpeed needs is refused") {
    CHECK(refusal(megatron, &deepspeed_driver, "dp=2")
              .find("order of parameters in DeepSpeed's flat buffers is unknown") != std::string::npos);
    CHECK(refusal("testdata/llama-hf", &universal_driver, "tp=1").find("exp_avg_sq), which the source does not have") !=
          std::string::npos);
    CHECK(refusal(round_robin, &torch_dist_driver, "tp=1").find("cannot convert to mcore names") != std::string::npos);
    CHECK(refusal(megatron, &universal_driver, "tp=2").find("universal checkpoints are not split") !=
          std::string::npos);
}

}  // namespace tpx::formats
