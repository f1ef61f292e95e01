// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/model_state.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/dims.hpp"
#include "lib/layout/families.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>

namespace {

using namespace tpx;

Families with_present(std::string_view present) {
    const std::string base = fmt::format(R"toml(
family = "base"
[dims]
l = {{ hf = "layers" }}
h = {{ hf = "hidden" }}
f = {{ any = "4 * h" }}
k = {{ any = "2" }}
e = {{ hf = "experts" }}
[pad]
mcore.f = "3 * tp"
[divide]
tp = ["h"]
[tensors]
in = "h ; first"
out = "h ; last tie=in"
aa = "l (h k) f ; tp=h opt"
bb = "l f ; tp=f opt"
cc = "l e h ; ep=e opt"
[tied]
hf = "same"
[present]
{}
)toml",
                                         present);
    return parse_families(std::array{FamilySource{"base.toml", base}});
}

Config config() {
    return {{"layers", std::int64_t{4}}, {"hidden", std::int64_t{6}}, {"experts", std::int64_t{8}}, {"even", true}};
}

ModelState made(std::string_view present, const Config& values) {
    return model_of(with_present(present)[0], "hf", values, parse_roles("weights", DType::bf16));
}

const TensorClass* find(const ModelState& model, std::string_view name) {
    const auto found = std::ranges::find(model.classes, name, &TensorClass::name);
    return found == model.classes.end() ? nullptr : &*found;
}

TEST_CASE("a model has the tensors whose conditions hold, in the layers in which they do") {
    const ModelState model = made("aa = { hf = \"even & l % 2 = 0\" }\nbb = \"!aa\"", config());
    REQUIRE(find(model, "aa"));
    CHECK(find(model, "aa")->layers == std::vector{0, 2});
    CHECK(find(model, "aa")->shape == Shape{12, 24});
    CHECK(find(model, "aa")->tp_axis == 0);
    CHECK(find(model, "bb")->layers == std::vector{1, 3});
    CHECK(find(model, "bb")->pad == 3);
    CHECK_FALSE(find(model, "cc"));
    CHECK(model.layers == 4);
    CHECK(model.tp_divides == std::vector<Index>{6});
    CHECK(parameters(model) == 2 * 12 * 24 + 2 * 24 + 6 + 6);
}

TEST_CASE("sizes that vary from layer to layer follow from formulas for layers") {
    const Families families = parse_families(std::array{FamilySource{"varied.toml", R"toml(
family = "varied"
[dims]
l = { hf = "layers" }
h = { hf = "hidden" }
g = { any = "varies", hf = "own.l.groups | 2 * groups if kinds[l] = 'short' | groups if kinds[l] = 'long'" }
d = { any = "varies", hf = "h / g" }
f = { any = "varies" }
[divide]
tp = ["g"]
[tensors]
a = "l (g d) h ; tp=g"
b = "l d"
c = "l f ; opt"
)toml"}});
    Config values{{"layers", std::int64_t{4}},
                  {"hidden", std::int64_t{12}},
                  {"groups", std::int64_t{2}},
                  {"kinds", std::string{"long,short,long,short"}},
                  {"own.3.groups", std::int64_t{6}}};
    const auto model = [&] { return model_of(families[0], "hf", values, parse_roles("weights", DType::bf16)); };
    const ModelState made = model();
    std::map<std::vector<int>, Shape> sizes;
    for (const TensorClass& kind : made.classes)
        if (kind.name == "b") sizes[kind.layers] = kind.shape;
    CHECK(sizes == std::map<std::vector<int>, Shape>{{{0, 2}, {6}}, {{1}, {3}}, {{3}, {2}}});
    CHECK(parameters(made) == 4 * 12 * 12 + 6 + 3 + 6 + 2);
    CHECK(made.tp_divides == std::vector<Index>{2, 4, 6});  // each layer counts
    CHECK(layer_formula(families[0], 'f', "hf") == nullptr);
    CHECK(has_sizes_of_shapes(families[0], "hf"));
    values["own.3.groups"] = std::int64_t{-6};
    CHECK_THROWS_WITH_AS(model(), doctest::Contains("size 'g' is unknown"), Error);
    values.erase("own.3.groups");
    values.erase("kinds");
    CHECK_THROWS_WITH_AS(model(), doctest::Contains("size 'g' is unknown"), Error);
}

TEST_CASE("formulas for layers must have the syntax of conditions") {
    CHECK_THROWS_WITH_AS(parse_family(R"toml(
family = "open"
[dims]
h = { any = "varies", hf = "heads[l" }
[tensors]
a = "l h"
)toml",
                                      "open.toml"),
                         "open.toml: dims.h: hf: condition 'heads[l': ']' was expected (at 7)", Error);
}

TEST_CASE("a tied tensor is not counted, and the tensor that it is tied to is on both stages") {
    Config values = config();
    CHECK(find(made("", values), "out"));
    CHECK_FALSE(find(made("", values), "in")->last);
    values["same"] = true;
    CHECK_FALSE(find(made("", values), "out"));
    CHECK(find(made("", values), "in")->first);
    CHECK(find(made("", values), "in")->last);
}

TEST_CASE("experts are counted, not listed") {
    const ModelState model = made("cc = \"l >= 1\"", config());
    CHECK(find(model, "cc")->experts == 8);
    CHECK(find(model, "cc")->shape == Shape{6});
    CHECK(parameters(model) == 3 * 8 * 6 + 6 + 6);
}

TEST_CASE("circular conditions and conditions for unknown tensors are refused") {
    CHECK_THROWS_WITH_AS(made("aa = \"bb\"\nbb = \"aa\"", config()),
                         "tensor 'aa': present: the condition of tensor 'bb' leads back to it", Error);
    CHECK_THROWS_WITH_AS(with_present("x = \"aa\""), "base.toml: present: tensor 'x' is not declared", Error);
    CHECK_THROWS_WITH_AS(with_present("aa = \"l >=\""),
                         "base.toml: line 22: condition 'l >=': a name or number was expected (at 4)", Error);
    Config values = config();
    values.erase("hidden");
    CHECK_THROWS_WITH_AS(made("aa = \"true\"", values), "tensor 'aa': size 'h' is unknown; it follows from h = hidden",
                         Error);
}

}  // namespace
