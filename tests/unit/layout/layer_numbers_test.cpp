// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/layer_numbers.hpp"

#include "lib/layout/express.hpp"
#include "tests/support/scratch.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

using namespace tpx;

namespace {

/// A model whose names of layers end or begin at layer L; other names are for all layers, or all experts, in one
/// tensor.
constexpr std::string_view bounded_family = R"(
family = "bounded"
detect.hf = ["bounded"]
[dims]
L = { hf = "layers" }
l = { any = "L" }
e = { hf = "experts" }
h = { hf = "hidden" }
[tensors]
norm = "l h ; opt"
after = "l h ; opt"
wide = "l e h ; ep=e opt"
[dialects.hf]
rules = [["layers.{l<L}.norm", "norm"], ["after.{l-L}.norm", "after"], ["layers.{l}.experts.{e}", "wide"]]
[dialects.titan]
rules = [["all.{l?}.norm", "norm"], ["all.{l?}.after", "after"], ["all.{l?}.experts", "wide"]]
roles.exp_avg = ["optimizer.state.*.exp_avg"]
)";

/// The error for tensors with these names and this configuration.
std::string error_of(const std::vector<std::string>& names, Config config) {
    config["model_type"] = "bounded";
    config["hidden"] = std::int64_t{4};
    const Families families{std::vector{parse_family(bounded_family, "bounded.toml")}};
    std::vector<Tensor> tensors;
    for (const std::string& name : names) tensors.push_back({name, DType::f32, {4}});
    return test::message_of([&] {
        const Reading reading = read(tensors, families, config);
        REQUIRE(reading.family != nullptr);
        express(reading, tensors, *reading.family->dialect("titan"), {}, 1, {"dist"});
    });
}

Config counted_layers(std::int64_t layers) { return {{"layers", layers}, {"experts", std::int64_t{3}}}; }

}  // namespace

TEST_CASE("a layer beyond those of the configuration is an error that lists the valid layers") {
    CHECK(error_of({"layers.4.norm"}, counted_layers(4)) ==
          "tensor 'layers.4.norm': layer 4 does not exist: the configuration has layers 0 to 3");
    CHECK(error_of({"layers.1.norm"}, counted_layers(1)) ==
          "tensor 'layers.1.norm': layer 1 does not exist: the configuration has layer 0 alone");
    CHECK(error_of({"layers.0.norm"}, counted_layers(0)) ==
          "tensor 'layers.0.norm': layer 0 does not exist: the configuration has no layers");
    CHECK(error_of({"after.0.norm"}, {}) ==
          "tensor 'after.0.norm': the number of layers is unknown; pass --config config.json");
}

TEST_CASE("missing and additional experts of a group are counted") {
    std::vector<std::string> experts;
    for (const char* expert : {"0", "1", "2"})
        for (const char* layer : {"0", "1"}) experts.push_back(fmt::format("layers.{}.experts.{}", layer, expert));
    CHECK(error_of(experts, counted_layers(2)) == "no error");
    Config fewer = counted_layers(2);
    fewer["experts"] = std::int64_t{2};
    CHECK(error_of(experts, fewer) ==
          "tensor 'all.experts': 6 experts are stored, but the configuration has 4 (2 in each of 2 layers)");
    for (const char* layer : {"0", "1"})
        experts.push_back(fmt::format("optimizer.state.layers.{}.experts.1.exp_avg", layer));
    CHECK(error_of(experts, counted_layers(2)) ==
          "tensor 'optimizer.state.all.experts.exp_avg': 2 of 6 experts are stored (3 in each of 2 layers)");
}

TEST_CASE("names may count experts of two sets in one sequence") {
    const Families families{std::vector{parse_family(R"(
family = "pools"
detect.hf = ["pools"]
[dims]
l = { hf = "layers" }
e = { hf = "experts.0" }
h = { hf = "hidden" }
x = { hf = "widths.0" }
y = { hf = "widths.1" }
[tensors]
text = "l e x h ; ep=e opt"
image = "l e y h ; ep=e opt"
[dialects.hf]
rules = [["layers.{l}.experts.{e<e}", "text"], ["layers.{l}.experts.{e+e}", "image"]]
[dialects.titan]
rules = [["layers.{l}.text", "text -> e x h"], ["layers.{l}.image.{e}", "image"]]
)",
                                                     "pools.toml")}};
    const Config config{{"model_type", "pools"},
                        {"layers", std::int64_t{1}},
                        {"experts", std::string{"2,2"}},
                        {"hidden", std::int64_t{4}},
                        {"widths", std::string{"6,3"}}};
    std::vector<Tensor> tensors;
    for (int number = 0; number < 4; ++number)
        tensors.push_back({fmt::format("layers.0.experts.{}", number), DType::f32, {number < 2 ? 6 : 3, 4}});
    const Reading reading = read(tensors, families, config);
    REQUIRE(reading.complete);
    CHECK(reading.meanings[1].rule->expression.parts == std::vector<std::string>{"text"});
    CHECK(reading.meanings[3].rule->expression.parts == std::vector<std::string>{"image"});
    CHECK(reading.meanings[3].indices == NameIndices{0, 1});
    const ExpressedState out = express(reading, tensors, *reading.family->dialect("titan"), {}, 1, {});
    std::vector<std::string> names;
    for (const Tensor& tensor : out.tensors) names.push_back(tensor.name);
    CHECK(names == std::vector<std::string>{"layers.0.text", "layers.0.image.0", "layers.0.image.1"});
    const ExpressedState back =
        express(read(out.tensors, families, config), out.tensors, *reading.family->dialect("hf"), {}, 1, {});
    REQUIRE(back.tensors.size() == 4);
    CHECK(back.tensors[3].name == "layers.0.experts.3");
    CHECK(back.tensors[3].shape == Shape{3, 4});
}
