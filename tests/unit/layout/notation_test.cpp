// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/notation.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tpx;

TEST_CASE("axes are words, parentheses join factors, ~ marks padding") {
    const std::vector<Axis> axes = parse_axes("l (g + r) v~");
    REQUIRE(axes.size() == 3);
    CHECK(axes[0] == Axis{{'l'}});
    CHECK(axes[1] == Axis{{'g'}, {'+'}, {'r'}});
    CHECK(axes[2] == Axis{{'v', true}});
    CHECK_THROWS_AS(parse_axes("(a b"), Error);
    CHECK_THROWS_AS(parse_axes("a ? b"), Error);
}

TEST_CASE("several parts need one '+', a single part none") {
    CHECK(parse_expression("q k v -> (g +) h").parts == std::vector<std::string>{"q", "k", "v"});
    CHECK(parse_expression("embed").axes.empty());
    CHECK(parse_expression("norm - 1").parts == std::vector<std::string>{"norm"});
    CHECK(parse_expression("norm - 1").addend == -1);
    CHECK(parse_expression("norm -> (g h) + 2").addend == 2);
    CHECK(parse_expression("q k v -> (g +) h").addend == 0);
    CHECK_THROWS_WITH(parse_expression("norm norm - 1"),
                      "expression 'norm norm - 1': only the values of a single part can have an addend");
    for (const char* text : {"1 - norm", "norm - 1.5", "norm - 1 -> h"})
        CHECK_THROWS_WITH_AS(parse_expression(text), doctest::Contains("is not the name of a tensor"), Error);
    CHECK_THROWS_AS(parse_expression("a b -> (+) - 1"), Error);
    CHECK_THROWS_AS(parse_expression("q k v -> g h"), Error);
    CHECK_THROWS_AS(parse_expression("q -> (g +)"), Error);
    CHECK_THROWS_AS(parse_expression("-> g"), Error);
    CHECK(parse_expression("q gate*d -> (g +) h").parts == std::vector<std::string>{"q", "gate"});
    CHECK(parse_expression("q gate*d -> (g +) h").repeats == std::vector<char>{'\0', 'd'});
    CHECK(parse_expression("q k -> (g +) h").repeats.empty());
    CHECK_THROWS_WITH(parse_expression("gate*d -> g h"), "'gate*d': only one of several parts can be repeated");
}

TEST_CASE("a name template reads the indices that it writes") {
    const NameTemplate plain{"model.layers.{l}.mlp.experts.{e}.w1.weight"};
    const auto found = plain.match("model.layers.12.mlp.experts.3.w1.weight");
    REQUIRE(found);
    CHECK(found->layer == 12);
    CHECK(found->expert == 3);
    CHECK(plain.name(*found, false) == "model.layers.12.mlp.experts.3.w1.weight");
    CHECK_FALSE(plain.match("model.layers.12.mlp.experts.w1.weight"));
    CHECK_FALSE(plain.match("model.layers.-1.mlp.experts.3.w1.weight"));
    CHECK_FALSE(plain.match("model.layers.12.mlp.experts.3.w1.weight.more"));
}

TEST_CASE("an optional index may be absent together with its dot") {
    const NameTemplate name{"decoder.layers.{l?}.mlp.weight"};
    CHECK(name.match("decoder.layers.mlp.weight")->layer == std::nullopt);
    CHECK(name.match("decoder.layers.7.mlp.weight")->layer == 7);
    CHECK(name.name({}, false) == "decoder.layers.mlp.weight");
    CHECK(name.name({7, {}}, false) == "decoder.layers.7.mlp.weight");
    CHECK_FALSE(name.match("decoder.layersmlp.weight"));
}

TEST_CASE("a bounded index restricts the indices of a name") {
    const NameTemplate below{"decoder.layers.{l<L?}.w{e}"};
    CHECK(below.optional('l'));
    CHECK(below.range('l').letter == 'L');
    CHECK(below.range('l').sign == '<');
    CHECK(below.range('e').letter == 0);
    CHECK(below.match("decoder.layers.3.w12") == NameIndices{3, 12});
    CHECK(below.match("decoder.layers.w12") == NameIndices{{}, 12});
    const NameTemplate from{"mtp.layers.{l-L}.w"};
    CHECK(from.range('l').sign == '-');
    CHECK(from.match("mtp.layers.0.w")->layer == 0);
    for (const char* wrong : {"a.{l<}", "a.{l*L}", "a.{x}", "a.{l<L", "a.{l<3}", "a{l?}", "{l?}.a"})
        CHECK_THROWS_AS(NameTemplate{wrong}, Error);
}

TEST_CASE("templates and names are folded alike") {
    const NameTemplate name{"[model.]layers.{l?}.layer.1.w{e}"};
    const std::vector<std::string> folded = name.folded();
    CHECK(folded.size() == 4);
    for (const char* stored : {"layers.12.layer.1.w3", "model.layers.0.layer.1.w77", "layers.layer.1.w0"}) {
        REQUIRE(name.match(stored));
        CHECK(std::ranges::find(folded, fold_numbers(stored)) != folded.end());
    }
    CHECK(fold_numbers("a1.23b") == "a#.#b");
}

TEST_CASE("an expression can declare a shape that differs from the order of the bytes") {
    const Expression expression = parse_expression("a b -> e h (+) as h (e +)");
    CHECK(expression.axes.size() == 3);
    CHECK(expression.shape == std::vector<Axis>{{{'h'}}, {{'e'}, {'+'}}});
    CHECK_THROWS_AS(parse_expression("a b -> e h (+) as h (+)"), Error);
}

TEST_CASE("a bracketed prefix is optional") {
    const NameTemplate name{"[model.]norm.weight"};
    CHECK(name.match("norm.weight"));
    CHECK(name.match("model.norm.weight"));
    CHECK(name.name({}, true) == "model.norm.weight");
    CHECK(name.name({}, false) == "norm.weight");
}

TEST_CASE("globs and role patterns") {
    CHECK(glob_match("*._extra_state*", "a.b._extra_state/shard_0_1"));
    CHECK_FALSE(glob_match("rng.*", "rngs"));
    CHECK(glob_match("*", ""));
    CHECK(wildcard_match("optimizer.state.*.exp_avg", "optimizer.state.a.b.exp_avg") == "a.b");
    CHECK_FALSE(wildcard_match("optimizer.state.*.exp_avg", "optimizer.state.a.b.exp_avg_sq"));
}
