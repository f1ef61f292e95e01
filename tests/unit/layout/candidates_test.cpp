// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/candidates.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

using namespace tpx;

TEST_CASE("candidates use all ranks, split all layers and are distinct") {
    const std::vector<CandidateLimits> cases{{.ranks = 8, .layers = 4},
                                             {.ranks = 24, .layers = 61, .experts = 384},
                                             {.ranks = 12, .layers = 5, .experts = 6},
                                             {.ranks = 1, .layers = 1}};
    for (const CandidateLimits& limits : cases) {
        CAPTURE(limits.ranks);
        const auto found = candidates(limits);
        std::set<std::string> texts;
        for (const Layout& layout : found) {
            const std::string text = to_string(layout);
            CAPTURE(text);
            CHECK(texts.insert(text).second);
            CHECK(layout.ranks() == limits.ranks);
            CHECK(parse_layout(text) == layout);
            CHECK(std::ssize(stages_of_layers(layout, limits.layers)) == limits.layers);
            if (limits.experts > 0) CHECK(limits.experts % layout.ep == 0);
        }
        CHECK_FALSE(found.empty());
    }
}

TEST_CASE("every way to factor the ranks is a candidate") {
    const auto found = candidates({.ranks = 8, .most_tp = 4, .layers = 4});
    std::set<std::string> texts;
    for (const Layout& layout : found) texts.insert(to_string(layout));
    CHECK(texts == std::set<std::string>{"dp=8", "pp=2,dp=4", "pp=4,dp=2", "tp=2,dp=4", "tp=2,pp=2,dp=2", "tp=2,pp=4",
                                         "tp=4,dp=2", "tp=4,pp=2"});
}

TEST_CASE("degrees of `like` are kept") {
    const auto found = candidates({.ranks = 8, .most_tp = 1, .layers = 4, .like = parse_layout("fsdp=4,zero=1")});
    CHECK(
        std::ranges::all_of(found, [](const Layout& layout) { return layout.fsdp == layout.dp && layout.zero == 1; }));
    CHECK(candidates({.ranks = 9, .layers = 4, .like = parse_layout("cp=2")}).empty());
}

TEST_CASE("techniques that candidates copy can be excluded") {
    const Layout like = parse_layout("tp=2,pp=2,dp=4,cp=2,zero=1,vpp=2");
    for (const char* technique : {"tp", "pp", "zero", "cp", "vpp"}) CHECK(uses(like, technique));
    CHECK_FALSE(uses(like, "ep"));
    CHECK(uses(parse_layout("fsdp=4"), "zero"));
    const std::array<std::string_view, 3> all{"zero", "cp", "vpp"};
    const Layout plain = without_techniques(like, all);
    for (const std::string_view technique : all) CHECK_FALSE(uses(plain, technique));
    CHECK(plain.tp == 2);
    CHECK(without_techniques(parse_layout("fsdp=4"), all).fsdp == 1);
}
