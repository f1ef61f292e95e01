// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/help_topics.hpp"

#include "formats/registry.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

using namespace tpx;

namespace {

/// Whether `text` contains `word` as a whole word.
bool has_word(std::string_view text, std::string_view word) {
    const auto ends = [&](std::size_t at) {
        return at >= text.size() || (std::isalnum(static_cast<unsigned char>(text[at])) == 0 && text[at] != '-');
    };
    for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1))
        if ((at == 0 || ends(at - 1)) && ends(at + word.size())) return true;
    return false;
}

}  // namespace

TEST_CASE("a name that resembles a topic leads to it") {
    CHECK(cli::unknown_topic_advice("policy") == "; did you mean 'policies'?");
    CHECK(cli::unknown_topic_advice("exit-code") == "; did you mean 'exit-status'?");
    CHECK(cli::unknown_topic_advice("layuots") == "; did you mean 'layouts'?");
    CHECK(cli::unknown_topic_advice("json") == "; see tpx-json(7)");
    CHECK(cli::unknown_topic_advice("foo") == "");
}

TEST_CASE("tpx help formats names every format, and every alias") {
    const cli::HelpTopic* topic = cli::find_help_topic("formats");
    REQUIRE(topic != nullptr);
    const std::string text = topic->text();
    const std::string aliases = text.substr(text.find("\nAliases: "));
    for (const formats::Format format : formats::drivers()) {
        CAPTURE(std::string{format->name});
        CHECK(has_word(text, format->name));
        for (const std::string_view alias : format->aliases) {
            CAPTURE(std::string{alias});
            CHECK(has_word(aliases, alias));
        }
    }
}
