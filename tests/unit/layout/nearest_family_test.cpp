// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/nearest_family.hpp"

#include "lib/layout/families.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace tpx;

namespace {

/// A model with an attention bias in the first layer only, and two norms per head.
constexpr std::string_view first_bias_family = R"(
family = "first-bias"
detect.hf = ["first-bias"]
[dims]
l = { hf = "num_hidden_layers" }
h = { hf = "hidden_size" }
[tensors]
q = "l h"
norm = "l h"
bias = "h"
[dialects.hf]
rules = [["block.{l}.layer.0.q", "q"], ["block.{l}.layer.1.norm", "norm"], ["block.0.layer.0.bias", "bias"]]
)";

FamilyFit fit_of(const std::vector<std::string>& names) {
    static const Family family = parse_family(first_bias_family, "first-bias.toml");
    std::vector<Tensor> tensors;
    for (const std::string& name : names) tensors.push_back({name, DType::f32, {4}});
    return fit_family(family, tensors);
}

}  // namespace

TEST_CASE("the numbers of layers and experts are folded, and those of the parts of a layer are not") {
    CHECK(kind_of_name("encoder.block.3.layer.1.DenseReluDense.wo.weight") ==
          "encoder.block.#.layer.1.DenseReluDense.wo.weight");
    CHECK(kind_of_name("model.layers.12.mlp.experts.7.w1.weight") == "model.layers.#.mlp.experts.#.w1.weight");
    CHECK(kind_of_name("mlp.experts.7.w1.weight") == "mlp.experts.#.w1.weight");
    CHECK(kind_of_name("model.layers.0.self_attn.q_layernorm.norms.3.weight") ==
          "model.layers.#.self_attn.q_layernorm.norms.3.weight");
    CHECK(kind_of_name("lm_head.weight") == "lm_head.weight");
}

TEST_CASE("a kind of name that rules match in one layer only is unexplained in the others") {
    const FamilyFit whole = fit_of({"block.0.layer.0.q", "block.1.layer.0.q", "block.0.layer.1.norm",
                                    "block.1.layer.1.norm", "block.0.layer.0.bias"});
    CHECK(whole.unknown.empty());
    CHECK(whole.unexplained == 0);
    CHECK(whole.known == 3);
    const FamilyFit more =
        fit_of({"block.0.layer.0.q", "block.1.layer.0.q", "block.0.layer.1.norm", "block.1.layer.1.norm",
                "block.0.layer.0.bias", "block.1.layer.0.bias", "block.2.layer.0.bias"});
    CHECK(more.unknown == std::vector<std::string>{"block.1.layer.0.bias"});
    CHECK(more.unexplained == 2);
    const FamilyFit other = fit_of({"block.0.layer.0.norm", "block.0.layer.1.norm"});
    CHECK(other.unknown == std::vector<std::string>{"block.0.layer.0.norm"});
}

TEST_CASE("of families that fit alike, one that needs no model_type is nearest") {
    std::string told{first_bias_family};
    told.replace(told.find("first-bias"), 10, "another");
    told.insert(told.find("[dims]"), "told = true\n");
    const Families families{
        std::vector{parse_family(told, "another.toml"), parse_family(first_bias_family, "first-bias.toml")}};
    std::vector<Tensor> tensors;
    for (const char* name : {"block.0.layer.0.q", "block.0.layer.1.norm", "block.0.layer.0.bias"})
        tensors.push_back({name, DType::f32, {4}});
    const auto nearest = nearest_family(tensors, families);
    REQUIRE(nearest);
    CHECK(nearest->family->name == "first-bias");
}
