// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/layout.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>

#include <random>
#include <set>

using namespace tpx;

namespace {

std::string layout_refusal(std::string_view text) {
    try {
        parse_layout(text);
        return "";
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::usage);
        return error.what();
    }
}

}  // namespace

TEST_CASE("omitted degrees are 1, and dp follows from ranks, fsdp or hsdp") {
    CHECK(parse_layout("tp=4,pp=2").ranks() == 8);
    CHECK(parse_layout("tp=4,ranks=16").dp == 4);
    CHECK(parse_layout("fsdp=4").dp == 4);
    CHECK(parse_layout("fsdp=2,hsdp=3").dp == 6);
    CHECK(parse_layout("dp=8,hsdp=2").fsdp == 4);
    CHECK(parse_layout("dp=8").fsdp == 1);
}

TEST_CASE("a layout's text reads back as the layout") {
    for (const char* text : {"tp=1", "tp=4,pp=2,dp=8", "fsdp=4", "fsdp=2,hsdp=2", "tp=2,pp=4,vpp=2",
                             "pp=3,stages=[2,3,1]", "pp=2,first=2", "tp=2,dp=4,ep=4,etp=1,order=tp-cp-ep-pp-dp"}) {
        CAPTURE(text);
        const Layout layout = parse_layout(text);
        CHECK(parse_layout(to_string(layout)) == layout);
    }
    CHECK(to_string(parse_layout("pp=2,tp=4")) == "tp=4,pp=2");
}

TEST_CASE("TOML and text give the same layout") {
    CHECK(parse_layout_toml("tp = 4\npp = 3\nstages = [2, 3, 1]\n", "x.toml") ==
          parse_layout("tp=4,pp=3,stages=[2,3,1]"));
    CHECK_THROWS_WITH_AS(parse_layout_toml("tp = [", "x.toml"), doctest::Contains("x.toml: line 1"), Error);
}

TEST_CASE("invalid layouts are refused with the key and the numbers") {
    CHECK(layout_refusal("zero=4") == "layout: 'zero=4': must be a whole number from 0 to 3");
    CHECK(parse_layout("tp=4, pp=2, stages=[1, 2]") == parse_layout("tp=4,pp=2,stages=[1,2]"));
    CHECK(layout_refusal("tp=0") == "layout: 'tp=0': must be a whole number from 1 to 16777216");
    CHECK(layout_refusal("tpp=2").starts_with("layout: unknown key 'tpp'; valid keys: tp="));
    CHECK(layout_refusal("tp=2,tp=4") == "layout: 'tp' is given twice");
    CHECK(layout_refusal("tp=4 pp=2") == "layout: 'tp=4 pp=2': separate keys with commas, as in tp=4,pp=2");
    CHECK(to_string(parse_layout("TP=4,pp2")) == "tp=4,pp=2");
    CHECK(layout_refusal("tp=3,ranks=8") == "layout: ranks=8 is not a multiple of tp*pp*cp = 3");
    CHECK(layout_refusal("dp=6,fsdp=4") == "layout: dp=6 is not fsdp=4 times hsdp=1");
    CHECK(
        layout_refusal("ep=3,dp=4") ==
        "layout: ep=3 and etp=1 (by default that of tp) need groups of 3 ranks, but tp=1, cp=1 and dp=4 have 4 ranks; "
        "use dp=6");
    CHECK(
        layout_refusal("tp=2,ep=2") ==
        "layout: ep=2 and etp=2 (by default that of tp) need groups of 4 ranks, but tp=2, cp=1 and dp=1 have 2 ranks; "
        "use dp=2, or etp=1");
    CHECK(layout_refusal("pp=2,stages=[1,2,3]") == "layout: stages lists 3 model chunks, pp*vpp = 2");
    CHECK(layout_refusal("tp") == "layout: 'tp': must be KEY=VALUE, such as tp=4,pp=2 or tp4pp2");
    for (const char* text : {"4", "tp4pp", "4tp", "tp4-"})
        CHECK(layout_refusal(text).find("must be KEY=VALUE") != std::string::npos);
    for (const char* text : {",tp=4", "tp=4,,pp=2", ","})
        CHECK(layout_refusal(text) == "layout: a value is missing before ','");
    CHECK(to_string(parse_layout("tp4pp2")) == "tp=4,pp=2");
    CHECK(to_string(parse_layout("tp4-pp2,fsdp_dim1,fsdp=8")) == "tp=4,pp=2,fsdp=8,fsdp_dim=1");
    CHECK(layout_refusal("tp4tp2") == "layout: 'tp' is given twice");
    CHECK(layout_refusal("xp4").find("xp") != std::string::npos);
    CHECK(layout_refusal("tp=2,") != "");
    CHECK(layout_refusal("") != "");
    CHECK(layout_refusal("order=tp-dp") != "");
    CHECK(layout_refusal("tp=999999999999999999999") != "");
    CHECK(layout_refusal("tp=16777216,dp=16777216") != "");
    // Products beyond 32 bits, of which some are 0 modulo 2^32, must not be divisors.
    for (const char* text :
         {"tp=16777216,pp=16777216,ranks=1", "tp=16777216,pp=16777216", "ep=16777216,etp=16777216,dp=2",
          "tp=65536,cp=65536,efsdp=2", "fsdp=65536,hsdp=65536", "ep=65536,etp=65536,efsdp=2"})
        CHECK(layout_refusal(text) == "layout: more than 16777216 ranks");
}

TEST_CASE("ranks and coordinates are inverse to each other, tp fastest by default") {
    const Layout layout = parse_layout("tp=2,cp=3,dp=4,pp=5");
    CHECK(coordinates(layout, 1).tp == 1);
    std::set<std::tuple<int, int, int, int>> seen;
    for (int rank = 0; rank < layout.ranks(); ++rank) {
        const Coordinates at = coordinates(layout, rank);
        CHECK(rank_at(layout, at) == rank);
        seen.insert({at.tp, at.pp, at.dp, at.cp});
    }
    CHECK(static_cast<int>(seen.size()) == layout.ranks());
    CHECK(coordinates(parse_layout("tp=2,pp=2,order=pp-tp-cp-ep-dp"), 1).pp == 1);
}

TEST_CASE("layers are split across stages evenly, by first and last, by list, and interleaved") {
    CHECK(stages_of_layers(parse_layout("pp=2"), 4) == std::vector<int>{0, 0, 1, 1});
    CHECK(stages_of_layers(parse_layout("pp=2,first=2"), 5) == std::vector<int>{0, 0, 1, 1, 1});
    CHECK(stages_of_layers(parse_layout("pp=4,first=1,last=2"), 5) == std::vector<int>{0, 1, 2, 3, 3});
    CHECK(stages_of_layers(parse_layout("pp=2,vpp=2"), 4) == std::vector<int>{0, 1, 0, 1});
    CHECK(stages_of_layers(parse_layout("pp=3,stages=[2,3,1]"), 6) == std::vector<int>{0, 0, 1, 1, 1, 2});
    CHECK_THROWS_WITH_AS(stages_of_layers(parse_layout("pp=3"), 4),
                         doctest::Contains("4 layers cannot be split evenly across 3 stages"), Error);
    CHECK_THROWS_AS(stages_of_layers(parse_layout("pp=3,stages=[2,3,1]"), 7), Error);
}

TEST_CASE("FSDP inside experts implies the ranks that it needs") {
    CHECK(parse_layout("ep=2,fsdp=3,efsdp=3").dp == 6);
    CHECK(parse_layout("ep=2,fsdp=3,efsdp=3").hsdp() == 2);
    CHECK(expert_fsdp(parse_layout("ep=2,fsdp=4")) == 2);
    CHECK(layout_refusal("ep=2,dp=8,fsdp=4,efsdp=3") ==
          "layout: efsdp=3 with ep=2, fsdp=4 and dp=8: experts are split over 4 ranks");
}
