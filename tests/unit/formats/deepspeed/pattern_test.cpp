// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/pattern.hpp"

#include "tests/support/chunks.hpp"

#include <doctest/doctest.h>

#include <random>
#include <regex>

namespace tpx::formats::deepspeed {

TEST_CASE("a pattern matches a prefix of a name") {
    CHECK(Pattern{R"(\d+.mlp.dense.weight)"}.match("12.mlp.dense.weight"));
    CHECK(Pattern{R"(\d+.mlp.dense.weight)"}.match("12.mlp.dense.weight_scale"));
    CHECK(!Pattern{R"(\d+.mlp.dense.weight$)"}.match("12.mlp.dense.weight_scale"));
    CHECK(!Pattern{R"(\d+.mlp)"}.match("x.mlp"));
    CHECK(Pattern{R"(^.*[qkv]_proj\.weight$)"}.match("model.layers.0.q_proj.weight"));
    CHECK(!Pattern{R"(^.*[^a-z]_proj\.weight$)"}.match("model.layers.0.q_proj.weight"));
    CHECK(Pattern{""}.match("anything"));
    CHECK(Pattern{"$"}.match(""));
    CHECK(!Pattern{"$"}.match("x"));
}

TEST_CASE("random patterns match like those of the standard library") {
    std::mt19937 random{3};
    const std::vector<std::string> items{"a", "b", ".", "[ab]", "[^a]", R"(\d)", R"(\.)", "1"};
    const std::vector<std::string> marks{"", "", "", "*", "+", "?"};
    const std::string letters = "ab1.";
    for (int round = 0; round < 3000; ++round) {
        std::string pattern, name;
        for (auto n = random() % 5; n > 0; --n)
            pattern += items[random() % items.size()] + marks[random() % marks.size()];
        if (random() % 3 == 0) pattern += "$";
        for (auto n = random() % 6; n > 0; --n) name += letters[random() % letters.size()];
        CAPTURE(pattern);
        CAPTURE(name);
        const bool want = std::regex_search(name, std::regex{pattern}, std::regex_constants::match_continuous);
        CHECK(Pattern{pattern}.match(name) == want);
    }
}

TEST_CASE("unsupported elements of patterns are reported") {
    for (const char* text : {"(a|b)", "a{2}", "*", "[a", R"(\b)", R"(a\)", "a$b"}) {
        const std::string error = test::error_of([&] { Pattern{text}; });
        CHECK_MESSAGE(error.starts_with(fmt::format("pattern '{}': ", text)), error);
    }
}

TEST_CASE("a pattern of many stars takes no time") {
    std::string text, name(1000, 'a');
    for (int i = 0; i < 100; ++i) text += "a*";
    CHECK(!Pattern{text + "b"}.match(name));
}

}  // namespace tpx::formats::deepspeed
