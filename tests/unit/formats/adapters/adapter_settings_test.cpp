// SPDX-License-Identifier: Apache-2.0
#include "formats/adapters/adapter_settings.hpp"
#include "lib/core/error.hpp"

#include <doctest/doctest.h>

using namespace tpx;
using namespace tpx::formats;

TEST_CASE("patterns match a module's name or its end, as PEFT's regular expressions do") {
    const char* module = "model.layers.11.self_attn.q_proj";
    for (const char* pattern :
         {"q_proj", "self_attn.q_proj", R"(self_attn\.q_proj)", R"(layers\.\d+\.self_attn.q_proj)",
          "model.layers.11.self_attn.q_proj", "^model.layers.*q_proj", "model.*", "layers.1..*", "(q|k)_proj",
          "[qk]_proj", "q_proj$", "q+_proj", R"(\w+)", ".*?", R"(model\.layers\.(0|1[01])\.self_attn\.(?:q|v)_proj)",
          R"(layers\.\d{2}\.(?!mlp).*)"})
        CHECK_MESSAGE(matches_module(pattern, module), pattern);
    for (const char* pattern : {"k_proj", "proj", "^q_proj", R"(layers\.\d+)", "self_attn", R"(q_proj\.)", "",
                                "(k|v)_proj", "^[qk]_proj", "q{2}_proj", R"(layers\.\d\.\w+\.q_proj)"})
        CHECK_MESSAGE(!matches_module(pattern, module), pattern);
    for (const char* pattern :
         {"(?P<kind>q|k)_proj", "(?<=self_attn.)q_proj", R"(\d++)", "(q", "[", "q{,2}", R"(\Aq_proj)"})
        CHECK_THROWS_WITH_AS(matches_module(pattern, module), doctest::Contains("regular expression"), Error);
}

TEST_CASE("a pattern of many runs is decided at once") {
    std::string pattern;
    for (int k = 0; k < 100; ++k) pattern += ".*a";
    CHECK_FALSE(matches_module(pattern, std::string(3000, 'a') + "b"));
}

TEST_CASE("the first pattern that matches decides, and rank-stabilized factors divide by the root of the rank") {
    AdapterSettings settings;
    settings.alpha = 12;
    settings.rank = 4;
    settings.ranks = {{"layers.1.q_proj", 16}, {"q_proj", 8}};
    settings.alphas = {{"v_proj", 6}};
    CHECK(settings.rank_of("model.layers.1.q_proj") == 16);
    CHECK(settings.rank_of("model.layers.0.q_proj") == 8);
    CHECK(settings.rank_of("model.layers.0.k_proj") == 4);
    CHECK(settings.scale("model.layers.0.k_proj", 4) == 3);
    CHECK(settings.scale("model.layers.0.v_proj", 4) == 1.5);
    settings.rank_stabilized = true;
    CHECK(settings.scale("model.layers.0.k_proj", 4) == 6);
}
