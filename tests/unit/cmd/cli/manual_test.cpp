// SPDX-License-Identifier: Apache-2.0
// Compares the manual pages and README in the source tree with the program.
#include "cmd/cli/cli.hpp"

#include "cmd/commands.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/layout.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace tpx;
using namespace tpx::cli;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> file_lines(const fs::path& path) {
    std::ifstream in{path};
    CHECK_MESSAGE(in.is_open(), path.string());
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

std::vector<fs::path> pages() {
    std::vector<fs::path> all;
    for (const fs::directory_entry& entry : fs::directory_iterator{"man"})
        if (entry.path().extension() == ".in") all.push_back(entry.path());
    std::ranges::sort(all);
    return all;
}

// The words of a shell line up to a pipe, a redirection or a comment; empty if it does not run tpx.
std::vector<std::string> words_of(const std::string& line) {
    const std::size_t prompt = line.find("$ ");
    if (prompt == line.npos || (prompt > 0 && line.find_first_not_of(' ') != prompt && !line.starts_with(".Dl")))
        return {};
    std::istringstream text{line.substr(prompt + 2)};
    std::vector<std::string> words;
    for (std::string word; text >> word && word != "|" && word != ">" && word != "#" && word != "&&";) {
        std::erase_if(word, [](char c) { return c == '\'' || c == '"'; });
        words.push_back(word);
    }
    const auto tpx =
        std::ranges::find_if(words, [](const std::string& w) { return w == "tpx" || w.ends_with("/tpx"); });
    const bool runs = tpx == words.begin() || (tpx != words.end() && words[0] == "mpirun");
    if (!runs) return {};
    words.erase(words.begin(), tpx + 1);
    return words;
}

// The error for the words after "tpx"; empty if there is none.
std::string mistake(const std::vector<std::string>& words) {
    if (words.empty()) return "no command";
    if (words[0] == "help" || words[0] == "--help" || words[0] == "--version") return "";
    Cli cli;
    add_commands(cli);
    try {
        cli.find(words[0]).parse(std::span{words}.subspan(1));
        for (std::size_t i = 0; i + 1 < words.size(); ++i)
            if (words[i] == "--to" && words[i + 1] != "auto") parse_layout(words[i + 1]);
        return "";
    } catch (const Error& error) {
        return error.what();
    }
}

int check_examples(const fs::path& path) {
    int examples = 0;
    for (const std::string& line : file_lines(path)) {
        if (const auto words = words_of(line); !words.empty()) {
            CHECK_MESSAGE(mistake(words) == "", path.string() << ": " << line << ": " << mistake(words));
            ++examples;
        }
    }
    return examples;
}

}  // namespace

TEST_CASE("every command has a manual page with valid examples") {
    Cli cli;
    add_commands(cli);
    for (const Command& command : cli.commands()) {
        const fs::path page = "man/tpx-" + command.name() + ".1.in";
        CHECK_MESSAGE(fs::exists(page), page.string());
        CHECK(check_examples(page) > 0);
    }
    CHECK(check_examples("man/tpx.1.in") > 0);
}

TEST_CASE("examples in help, README and the other pages are valid") {
    Cli cli;
    add_commands(cli);
    for (const Command& command : cli.commands())
        for (const Example& example : command.examples()) {
            const auto words = words_of("$ " + example.line);
            CHECK_MESSAGE(mistake(words) == "", example.line << ": " << mistake(words));
        }
    for (const fs::path& page : pages()) check_examples(page);
    check_examples("README.md");
    CHECK(mistake(words_of("$ mpirun -n 2 tpx reshard a b --too tp=2 | cat")) != "");
    CHECK(mistake(words_of(".Dl $ tpx plan a --to tq=2")) != "");
}

TEST_CASE("README names every command") {
    Cli cli;
    add_commands(cli);
    const std::vector<std::string> lines = file_lines("README.md");
    for (const Command& command : cli.commands()) {
        const auto row = std::ranges::find_if(
            lines, [&](const auto& line) { return line[0] == '|' && line.find("tpx " + command.name()) != line.npos; });
        REQUIRE_MESSAGE(row != lines.end(), command.name());
    }
}

TEST_CASE("pages refer to pages that exist") {
    for (const fs::path& page : pages()) {
        for (const std::string& line : file_lines(page)) {
            std::istringstream words{line};
            std::string macro, name, section;
            words >> macro >> name >> section;
            if (macro != ".Xr" || !name.starts_with("tpx")) continue;
            CHECK_MESSAGE(fs::exists("man/" + name + "." + section + ".in"), page.string() << ": " << line);
        }
    }
}

TEST_CASE("tpx-layout(5) explains every key, and its examples are layouts") {
    std::string page;
    int examples = 0;
    for (const std::string& line : file_lines("man/tpx-layout.5.in")) {
        page += line + "\n";
        if (!line.starts_with(".It Li ")) continue;
        CHECK_NOTHROW_MESSAGE(parse_layout(line.substr(7)), line);
        ++examples;
    }
    CHECK(examples > 3);
    for (std::string key : layout_keys()) {
        key.pop_back();
        CHECK_MESSAGE(page.find(".It Cm " + key + " Ns = Ns") != page.npos, key);
    }
    const std::size_t begin = page.find("tp = 4\n");
    REQUIRE(begin != page.npos);
    CHECK(parse_layout_toml(page.substr(begin, page.find(".Ed", begin) - begin), "page").ranks() == 32);
}
