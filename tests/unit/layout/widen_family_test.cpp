// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/widen_family.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/adapter_family.hpp"
#include "lib/layout/express.hpp"
#include "lib/layout/parts.hpp"
#include "lib/layout/reading.hpp"
#include "lib/layout/tensor_form.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

using namespace tpx;

namespace {

constexpr std::string_view text_family = R"(
family = "text"
detect.hf = ["text"]
[dims]
l = { hf = "layers" }
h = { hf = "hidden" }
f = { hf = "wide" }
[tensors]
norm = "l h"
gate = "l f h ; tp=f"
up = "l f h ; tp=f"
down = "l h f ; tp=f"
[dialects.hf]
layer = "[model.]layers.{l}"
nest = [["inner.model.", "inner."]]
whole = ["*tower.*"]
rules = [[".norm", "norm"], [".gate.weight", "gate"], [".up.weight", "up"], [".down.weight", "down"]]
[dialects.mcore]
layer = "blocks.{l}"
nest = [["", "language."]]
rules = [[".norm", "norm"], [".fc1.weight", "gate up -> (+) h"], [".fc2.weight", "down"]]
[[outer]]
types = ["seeing"]
nest = { hf = ["inner.model.", "inner."], mcore = ["", "language."] }
parts = [
  { hf = ["tower.*", "tower.old.*"], mcore = "eye.*" },
  { hf = "tower.out", mcore = "eye.proj -> b a" },
]
)";

const Config seeing{{"model_type", "text"},
                    {"outer.model_type", "seeing"},
                    {"layers", std::int64_t{1}},
                    {"hidden", std::int64_t{4}},
                    {"wide", std::int64_t{6}}};

std::vector<Tensor> seeing_tensors() {
    std::vector<Tensor> tensors;
    const std::string layer = "inner.model.layers.0.";
    tensors.push_back({layer + "norm", DType::f32, {4}});
    tensors.push_back({layer + "gate.weight", DType::f32, {6, 4}});
    tensors.push_back({layer + "up.weight", DType::f32, {6, 4}});
    tensors.push_back({layer + "down.weight", DType::f32, {4, 6}});
    tensors.push_back({"tower.old.patch", DType::f32, {3, 3, 2}});
    tensors.push_back({"tower.out", DType::f32, {3, 4}});
    return tensors;
}

std::vector<std::string> names_of(std::span<const Tensor> tensors) {
    std::vector<std::string> names;
    for (const Tensor& tensor : tensors) names.push_back(tensor.name);
    std::ranges::sort(names);
    return names;
}

}  // namespace

TEST_CASE("parts outside the language model are renamed and transposed") {
    const Families families{std::vector{parse_family(text_family, "text.toml")}};
    const std::vector<Tensor> tensors = seeing_tensors();
    const Reading reading = read(tensors, families, seeing);
    REQUIRE(reading.family != nullptr);
    CHECK(reading.family->is_outer);
    CHECK(reading.unknown.empty());
    CHECK(reading.complete);
    const ExpressedState expressed = express(reading, tensors, *reading.family->dialect("mcore"), {}, 1, {});
    CHECK(names_of(expressed.tensors) ==
          std::vector<std::string>{"eye.patch", "eye.proj", "language.blocks.0.fc1.weight",
                                   "language.blocks.0.fc2.weight", "language.blocks.0.norm"});
    const auto proj = std::ranges::find(expressed.tensors, "eye.proj", &Tensor::name);
    CHECK(proj->shape == Shape{4, 3});
}

TEST_CASE("a model without an [[outer]] table keeps its unknown tensors") {
    const Families families{std::vector{parse_family(text_family, "text.toml")}};
    Config other = seeing;
    other["outer.model_type"] = std::string{"hearing"};
    const Reading reading = read(seeing_tensors(), families, other);
    REQUIRE(reading.family != nullptr);
    CHECK_FALSE(reading.family->is_outer);
    CHECK(reading.unknown.size() == 2);
}

TEST_CASE("inside another model, names without the prefix of the language model are outside it") {
    const Families families{std::vector{parse_family(text_family, "text.toml")}};
    std::vector<Tensor> tensors = seeing_tensors();
    const std::span<const Tensor> inner{tensors.data(), 4};
    const Reading nested = read(inner, families, seeing);
    REQUIRE(nested.dialect != nullptr);
    CHECK(nested.dialect->is_whole("merger.weight"));
    CHECK(nested.dialect->is_whole("inner.tower.weight"));
    CHECK_FALSE(nested.dialect->is_whole("inner.model.layers.0.other"));
    CHECK_FALSE(nested.dialect->is_whole("inner.other"));
    CHECK_FALSE(nested.dialect->is_whole("optimizer.state.scale.inner.model.layers.0.norm"));
    CHECK_FALSE(nested.dialect->is_whole("optim.state.inner.model.layers.0.norm.scale"));
    const Dialect* plain = families[0].dialect("hf");
    REQUIRE(plain != nullptr);
    CHECK(plain->is_whole("tower.weight"));
    CHECK_FALSE(plain->is_whole("merger.weight"));
}

TEST_CASE("with Megatron's names, parts outside the language model can be split") {
    const Family family = parse_family(text_family, "text.toml");
    const auto nested = std::ranges::find_if(family.dialects, [](const Dialect& dialect) {
        return dialect.name == "mcore" && dialect.rules[0].name.text().starts_with("language.");
    });
    REQUIRE(nested != family.dialects.end());
    CHECK_FALSE(nested->is_whole("vision_model.decoder.layers.0.mlp.linear_fc1.weight"));
    const Families families{std::vector{family}};
    std::vector<Tensor> tensors{{"language.blocks.0.norm", DType::f32, {4}},
                                {"language.blocks.0.fc1.weight", DType::f32, {12, 4}},
                                {"language.blocks.0.fc2.weight", DType::f32, {4, 6}},
                                {"vision_model.blocks.0.fc1.weight", DType::f32, {12, 4}}};
    const Reading reading = read(tensors, families, {{"model_type", "text"}, {"layers", std::int64_t{1}}});
    REQUIRE(reading.family != nullptr);
    CHECK(reading.unknown.size() == 1);
    CHECK_FALSE(reading.dialect->is_whole(tensors[3].name));
}

TEST_CASE("a tensor of a part with a wrong number of axes is refused") {
    const Families families{std::vector{parse_family(text_family, "text.toml")}};
    std::vector<Tensor> tensors = seeing_tensors();
    tensors.back().shape = {3};
    CHECK_THROWS_WITH_AS(read(tensors, families, seeing), "tensor 'tower.out': expected 2 axes, found shape [3]",
                         Error);
}

TEST_CASE("parts that rules cannot describe stay unknown") {
    const Families families{std::vector{parse_family(text_family, "text.toml")}};
    const auto unknown = [&](const std::vector<Tensor>& tensors) {
        const Reading reading = read(tensors, families, seeing);
        REQUIRE(reading.family != nullptr);
        CHECK_FALSE(reading.family->is_outer);
        return reading.unknown.size();
    };
    std::vector<Tensor> tensors = seeing_tensors();
    tensors.push_back({"tower.{x}", DType::f32, {3}});
    CHECK(unknown(tensors) == 3);
    tensors.back().name = "tower.patch";  // also the name of tower.old.patch
    CHECK(unknown(tensors) == 3);
    tensors.pop_back();
    for (int k = 0; k < 129; ++k) tensors.push_back({fmt::format("tower.{}", k), DType::f32, {100 + k}});
    CHECK(unknown(tensors) == 131);
}

TEST_CASE("adapters have the names of PEFT and of Megatron Bridge") {
    const Families families{std::vector{parse_family(text_family, "text.toml")}};
    Config config = seeing;
    config.erase("outer.model_type");
    const std::string layer = "blocks.0.";
    const std::vector<Tensor> shared{{layer + "fc1.adapter.linear_in.weight", DType::f32, {2, 4}},
                                     {layer + "fc1.adapter.linear_out.weight", DType::f32, {12, 2}}};
    const Reading reading = read(shared, families, config);
    REQUIRE(reading.family != nullptr);
    CHECK(is_adapter_family(*reading.family));
    const ExpressedState peft = express(reading, shared, *reading.family->dialect("hf"), {}, 1, {});
    const std::string start = "base_model.model.model.layers.0.";
    CHECK(names_of(peft.tensors) == std::vector<std::string>{start + "gate.lora_A.weight", start + "gate.lora_B.weight",
                                                             start + "up.lora_A.weight", start + "up.lora_B.weight"});
    const ExpressedState bridge = express(reading, shared, *reading.family->dialect("mcore"), {}, 1, {});
    CHECK(names_of(bridge.tensors) == std::vector<std::string>{layer + "fc1.adapter.adapter_gate.linear_in.weight",
                                                               layer + "fc1.adapter.adapter_gate.linear_out.weight",
                                                               layer + "fc1.adapter.adapter_up.linear_in.weight",
                                                               layer + "fc1.adapter.adapter_up.linear_out.weight"});
    // The parts of an adapter that two weights share are at the same place.
    const std::vector<Part> parts = parts_of(reading, shared[0], reading.meanings[0]);
    REQUIRE(parts.size() == 2);
    CHECK(parts[0].name == "layers.0.gate.a");
    CHECK(parts[1].name == "layers.0.up.a");
    CHECK(parts[0].offset == parts[1].offset);
}

TEST_CASE("tensors of PEFT without a description of the base are not converted") {
    const std::vector<Tensor> tensors{{"base_model.model.model.layers.0.up.lora_A.weight", DType::f32, {2, 4}}};
    CHECK_FALSE(are_adapter_tensors(tensors, {}));
    CHECK(are_adapter_tensors(tensors, {{"model_type", "text"}}));
    CHECK_FALSE(are_adapter_tensors(tensors, {{"model_type", "text"}, {"outer.model_type", "seeing"}}));
}

TEST_CASE("adapters of a model inside another one are not converted") {
    const Families families{std::vector{parse_family(text_family, "text.toml")}};
    const std::vector<Tensor> tensors{{"language.blocks.0.fc2.adapter.linear_in.weight", DType::f32, {2, 6}},
                                      {"language.blocks.0.fc2.adapter.linear_out.weight", DType::f32, {4, 2}}};
    CHECK_FALSE(are_adapter_tensors(tensors, seeing));
    CHECK(read(tensors, families, seeing).family == nullptr);
    CHECK(read(tensors, families, {}).family == nullptr);
}

TEST_CASE("optimizer state of an adapter is recognized") {
    const Families families{std::vector{parse_family(
        fmt::format("{}[dialects.mcore.roles]\nexp_avg = [\"state.exp_avg.*\"]\n", text_family), "text.toml")}};
    const std::string name = "blocks.0.fc2.adapter.linear_in.weight";
    const std::vector<Tensor> tensors{{name, DType::f32, {2, 6}}, {"state.exp_avg." + name, DType::f32, {2, 6}}};
    const Reading reading = read(tensors, families, {});
    REQUIRE(reading.family != nullptr);
    CHECK(is_adapter_family(*reading.family));
    CHECK(reading.unknown.empty());
    CHECK(reading.meanings[1].role == Role::exp_avg);
}

TEST_CASE("a model that is stored together with its adapter counts as a model") {
    const Families families{std::vector{parse_family(text_family, "text.toml")}};
    Config config = seeing;
    config.erase("outer.model_type");
    const std::string layer = "blocks.0.";
    std::vector<Tensor> tensors;
    for (const char* adapter : {"fc1.adapter.adapter_gate", "fc1.adapter.adapter_up"}) {
        tensors.push_back({fmt::format("{}{}.linear_in.weight", layer, adapter), DType::f32, {2, 4}});
        tensors.push_back({fmt::format("{}{}.linear_out.weight", layer, adapter), DType::f32, {6, 2}});
    }
    const Reading adapter = read(tensors, families, config);
    REQUIRE(adapter.family != nullptr);
    CHECK(is_adapter_family(*adapter.family));
    CHECK(adapter.why_not.empty());
    tensors.push_back({layer + "norm", DType::f32, {4}});
    tensors.push_back({layer + "fc1.weight", DType::f32, {12, 4}});
    tensors.push_back({layer + "fc2.weight", DType::f32, {4, 6}});
    const Reading model = read(tensors, families, config);
    REQUIRE(model.family == &families[0]);
    CHECK(model.own_family == nullptr);
    CHECK(model.unknown.size() == 4);
}

TEST_CASE("layers of a tower are stacked, and tensor parallelism splits their heads") {
    const std::string tower = R"(
[[outer]]
types = ["seeing"]
nest = { hf = ["inner.model.", "inner."], mcore = ["", "language."] }
dims = { j = "3", n = "tower.heads" }
parts = [{ axes = "(j n d) h ; tp=n", hf = "tower.*.qkv", mcore = "eye.*?.qkv -> (n j d) h" }]
)";
    const std::string text{text_family};
    const Families families{std::vector{parse_family(text.substr(0, text.find("[[outer]]")) + tower, "text.toml")}};
    std::vector<Tensor> tensors = seeing_tensors();
    tensors.resize(4);
    for (const char* layer : {"0", "1"}) tensors.push_back({fmt::format("tower.{}.qkv", layer), DType::f32, {12, 5}});
    Config config = seeing;
    config["tower.heads"] = std::int64_t{2};
    const Reading reading = read(tensors, families, config);
    REQUIRE(reading.complete);
    // A rank of tp=2 has its head of the queries, of the keys and of the values.
    const TensorForm form = form_of(reading, tensors[4], reading.meanings[4]);
    CHECK(form.tp_axis == 0);
    CHECK(form.tp_blocks == std::vector<Interval>{{0, 4}, {4, 8}, {8, 12}});

    const Dialect* mcore = reading.family->dialect("mcore");
    REQUIRE(mcore != nullptr);
    const ExpressedState stacked = express(reading, tensors, *mcore, config, 1, {"dist"});
    const auto found = std::ranges::find(stacked.tensors, "eye.qkv", &Tensor::name);
    REQUIRE(found != stacked.tensors.end());
    CHECK(found->shape == Shape{2, 12, 5});
    const ExpressedState single = express(reading, tensors, *mcore, config, 1, {});
    CHECK(std::ranges::count(single.tensors, "eye.1.qkv", &Tensor::name) == 1);

    config.erase("tower.heads");
    CHECK_FALSE(read(tensors, families, config).complete);
}

namespace {

/// A tower whose queries, keys and values are one tensor, and whose gates and ups are joined in another dialect.
Families joined_families() {
    constexpr std::string_view tower = R"(
[[outer]]
types = ["seeing"]
nest = { hf = ["inner.model.", "inner."], mcore = ["", "language."] }
dims = { g = "tower.groups", m = "tower.heads / tower.groups" }
parts = [
  { hf = "tower.*.qkv q k v -> (+) h", mcore = "eye.*?.qkv q k v -> (g +) h", axes = { q = "(g m d) h ; tp=g", k = "(g d) h ; tp=g", v = "(g d) h ; tp=g" } },
  { hf = ["tower.*.gate gate", "tower.*.up up"], mcore = "eye.*?.fc1 gate up -> (+) h", axes = { gate = "f h ; tp=f", up = "f h ; tp=f" } },
]
)";
    const std::string text{text_family};
    return Families{
        std::vector{parse_family(fmt::format("{}{}", text.substr(0, text.find("[[outer]]")), tower), "text.toml")}};
}

Config joined_config() {
    Config config = seeing;
    config["tower.groups"] = std::int64_t{2};
    config["tower.heads"] = std::int64_t{4};
    return config;
}

std::vector<Tensor> joined_tensors() {
    std::vector<Tensor> tensors = seeing_tensors();
    tensors.resize(4);
    for (const char* layer : {"0", "1"}) {
        tensors.push_back({fmt::format("tower.{}.qkv", layer), DType::f32, {24, 5}});  // 4 heads of 3 and twice 2
        tensors.push_back({fmt::format("tower.{}.gate", layer), DType::f32, {7, 5}});
        tensors.push_back({fmt::format("tower.{}.up", layer), DType::f32, {7, 5}});
    }
    return tensors;
}

}  // namespace

TEST_CASE("a part can have several tensors, which dialects store jointly or separately") {
    const Families families = joined_families();
    const std::vector<Tensor> tensors = joined_tensors();
    const Config config = joined_config();
    const Reading reading = read(tensors, families, config);
    REQUIRE(reading.complete);
    // A rank of tp=2 has the queries, keys and values of its group.
    CHECK(form_of(reading, tensors[4], reading.meanings[4]).tp_blocks ==
          std::vector<Interval>{{0, 12}, {12, 18}, {18, 24}});
    const Dialect* mcore = reading.family->dialect("mcore");
    REQUIRE(mcore != nullptr);
    const ExpressedState single = express(reading, tensors, *mcore, config, 1, {});
    CHECK(std::ranges::count(single.tensors, "eye.1.fc1", &Tensor::name) == 1);
    const ExpressedState stacked = express(reading, tensors, *mcore, config, 1, {"dist"});
    const auto at = [&](std::string_view name) {
        const auto found = std::ranges::find(stacked.tensors, name, &Tensor::name);
        REQUIRE(found != stacked.tensors.end());
        return static_cast<std::size_t>(found - stacked.tensors.begin());
    };
    const std::size_t qkv = at("eye.qkv");
    CHECK(stacked.tensors[qkv].shape == Shape{2, 24, 5});
    CHECK(stacked.tensors[at("eye.fc1")].shape == Shape{2, 14, 5});
    // The keys of layer 1 come after two query heads in each group.
    const std::vector<Part> parts = parts_of(stacked.reading, stacked.tensors[qkv], stacked.reading.meanings[qkv]);
    REQUIRE(parts.size() == 6);
    CHECK(parts[4].name == "tower.1.qkv.k");
    CHECK(stored_index(parts[4], {1, 2, 3}) == Tuple<Index>{1, 12 + 6 + 2, 3});
    const TensorForm form =
        form_of(stacked.reading, stacked.tensors[at("eye.fc1")], stacked.reading.meanings[at("eye.fc1")]);
    CHECK(form.tp_axis == 1);
    CHECK(form.tp_blocks == std::vector<Interval>{{0, 7}, {7, 14}});
    const Reading again = read(stacked.tensors, families, config);
    REQUIRE(again.complete);
    const ExpressedState back = express(again, stacked.tensors, *again.family->dialect("hf"), config, 1, {});
    CHECK(names_of(back.tensors) == names_of(tensors));
}

TEST_CASE("tensors that are stored jointly must be complete and have matching shapes") {
    const Families families = joined_families();
    std::vector<Tensor> tensors = joined_tensors();
    tensors.pop_back();
    CHECK_FALSE(read(tensors, families, joined_config()).family->is_outer);
    tensors = joined_tensors();
    tensors.back().shape = {8, 5};
    CHECK_FALSE(read(tensors, families, joined_config()).family->is_outer);
    tensors = joined_tensors();
    tensors[4].shape = {22, 5};
    CHECK_THROWS_WITH_AS(read(tensors, families, joined_config()),
                         "tensor 'tower.0.qkv': shape [22, 5]: the parts that it is made of do not fit into 22", Error);
}

TEST_CASE("of several rules with the same name, the one whose axes fit the shape is used") {
    const Families families{std::vector{parse_family(R"(
family = "two"
detect.hf = ["two"]
[dims]
l = { hf = "layers" }
h = { hf = "hidden" }
f = { hf = "wide" }
[tensors]
up = "l f h"
[dialects.hf]
layer = "layers.{l}"
rules = [[".up", "up -> h f"], [".up", "up"]]
)",
                                                     "two.toml")}};
    const Config config{
        {"model_type", "two"}, {"layers", std::int64_t{2}}, {"hidden", std::int64_t{4}}, {"wide", std::int64_t{6}}};
    const std::vector<Tensor> tensors{{"layers.0.up", DType::f32, {4, 6}}, {"layers.1.up", DType::f32, {6, 4}}};
    const Reading reading = read(tensors, families, config);
    REQUIRE(reading.complete);
    for (std::size_t t = 0; t < tensors.size(); ++t)
        CHECK(parts_of(reading, tensors[t], reading.meanings[t])[0].shape == Shape{6, 4});
}
