// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/notation.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>

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

TEST_CASE("several parts need one place to stand, a single part none") {
    CHECK(parse_expression("q k v -> (g +) h").parts == std::vector<std::string>{"q", "k", "v"});
    CHECK(parse_expression("embed").axes.empty());
    CHECK_THROWS_AS(parse_expression("q k v -> g h"), Error);
    CHECK_THROWS_AS(parse_expression("q -> (g +)"), Error);
    CHECK_THROWS_AS(parse_expression("-> g"), Error);
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

TEST_CASE("a bracketed prefix may stand or not") {
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
    CHECK(star_of("optimizer.state.*.exp_avg", "optimizer.state.a.b.exp_avg") == "a.b");
    CHECK_FALSE(star_of("optimizer.state.*.exp_avg", "optimizer.state.a.b.exp_avg_sq"));
}
