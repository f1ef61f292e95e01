// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/missing_parts.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/reading.hpp"
#include "tests/support/families.hpp"
#include "tests/support/scratch.hpp"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace tpx;
using namespace tpx::formats;

namespace {

using Lines = std::vector<std::string>;

/// A model whose layers beyond L have a norm that the others lack; the first layer has no gate.
constexpr std::string_view predicting_family = R"(
family = "predicting"
detect.hf = ["predicting"]
[dims]
L = { hf = "num_hidden_layers" }
T = { hf = "num_nextn_predict_layers | 0" }
l = { any = "L + T" }
h = { hf = "hidden_size" }
[tensors]
norm = "l h"
gate = "l h ; opt"
enorm = "l h ; opt"
[present]
gate = "l >= 1"
enorm = "L <= l"
[dialects.hf]
layer = "layers.{l}"
rules = [[".norm", "norm"], [".gate", "gate"], [".enorm", "enorm"]]
)";

/// A model of `layers` layers, the last of which has the tensor `last`, and a configuration with `counted` layers.
Source source_of(int layers, std::string_view last, std::int64_t counted, std::int64_t predicted = 0) {
    Source source;
    source.families = Families{std::vector{parse_family(predicting_family, "predicting.toml")}};
    std::vector<Tensor>& tensors = source.checkpoint.catalogue.tensors;
    const auto add = [&](int layer, std::string_view name) {
        tensors.push_back({fmt::format("layers.{}.{}", layer, name), DType::f32, {4}});
    };
    for (int layer = 0; layer < layers; ++layer) add(layer, "norm");
    for (int layer = 1; layer < layers; ++layer) add(layer, "gate");
    if (last != "gate") add(layers - 1, last);
    source.reading = read(tensors, source.families,
                          {{"model_type", "predicting"},
                           {"num_hidden_layers", counted},
                           {"num_nextn_predict_layers", predicted},
                           {"hidden_size", std::int64_t{4}}});
    REQUIRE(source.reading.family != nullptr);
    return source;
}

/// A model whose settings decide which of two tensors its layers have.
constexpr std::string_view two_kinds_family = R"(
family = "kinds"
detect.hf = ["kinds"]
[dims]
l = { hf = "num_hidden_layers" }
h = { hf = "hidden_size" }
[tensors]
norm = "l h"
gate = "l h ; opt"
up = "l h ; opt"
[present]
gate = "!up"
up = "(kinds[l] = 'wide' | wide) | narrow"
[dialects.hf]
layer = "layers.{l}"
rules = [[".norm", "norm"], [".gate", "gate"], [".up", "up"]]
)";

/// A model whose `layers` layers have gates, with a configuration for the other kind.
Source gates_of(int layers) {
    Source source;
    source.families = Families{std::vector{parse_family(two_kinds_family, "kinds.toml")}};
    std::vector<Tensor>& tensors = source.checkpoint.catalogue.tensors;
    for (int layer = 0; layer < layers; ++layer)
        for (const std::string_view name : {"norm", "gate"})
            tensors.push_back({fmt::format("layers.{}.{}", layer, name), DType::f32, {4}});
    source.reading = read(tensors, source.families,
                          {{"model_type", "kinds"},
                           {"num_hidden_layers", std::int64_t{layers}},
                           {"hidden_size", std::int64_t{4}},
                           {"wide", true},
                           {"narrow", true}});
    REQUIRE(source.reading.family != nullptr);
    return source;
}

}  // namespace

TEST_CASE("layers beyond those of the configuration are reported in one line") {
    CHECK(missing_parts(source_of(4, "gate", 4)).empty());
    CHECK(missing_parts(source_of(4, "gate", 2)) == Lines{"layers 2 to 3 are stored, but num_hidden_layers is 2"});
    CHECK(missing_parts(source_of(4, "gate", 2, 1)) ==
          Lines{"layer 3 is stored, but num_hidden_layers is 2 and multi-token prediction has 1 layer"});
    const Target target;
    CHECK(test::message_of([&] { check_whole_model(source_of(4, "gate", 2), target); }) ==
          "layers 2 to 3 are stored, but num_hidden_layers is 2; correct config.json, or pass --dialect keep");
    CHECK(missing_parts(source_of(1, "gate", 2)) ==
          Lines{"layer 1: no tensor is stored; the configuration has 2 layers"});
}

TEST_CASE("a layer beyond those of the configuration may be for multi-token prediction") {
    CHECK(missing_parts(source_of(4, "enorm", 3)).empty());
    CHECK(missing_parts(source_of(4, "gate", 3)) == Lines{"layer 3 is stored, but num_hidden_layers is 3"});
}

TEST_CASE("if many layers differ from config.json, five are named") {
    CHECK(missing_parts(gates_of(5)) ==
          Lines{"layers 0 to 4: config.json (wide = true) describes 'up', but the checkpoint stores 'gate'"});
    CHECK(
        missing_parts(gates_of(7)) ==
        Lines{"layers 0 to 4 and 2 more: config.json (wide = true) describes 'up', but the checkpoint stores 'gate'"});
}

TEST_CASE("a family that inherits a classification head keeps its number of classes") {
    for (std::size_t number = 0; number < test::families().size(); ++number) {
        const Family& family = test::families()[number];
        const auto score = family.tensors.find("score");
        if (score == family.tensors.end()) continue;
        CAPTURE(family.name);
        const std::string* classes = formula_for(family.dims.at(score->second.axes[0][0].letter), "hf");
        REQUIRE(classes != nullptr);
        CHECK(*classes == "num_labels");
    }
}
