// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/cli.hpp"

#include "cmd/cli/help.hpp"
#include "cmd/commands.hpp"

#include <doctest/doctest.h>

#include <cctype>
#include <set>
#include <sstream>

using namespace tpx::cli;

namespace {

bool in_house_style(const std::string& summary) {
    return !summary.empty() && std::isupper(static_cast<unsigned char>(summary.front())) && !summary.ends_with('.') &&
           summary.find('\n') == summary.npos;
}

// All commands, including subcommands.
std::vector<const Command*> all_commands(const Cli& cli) {
    std::vector<const Command*> all;
    for (const Command& command : cli.commands()) {
        all.push_back(&command);
        for (const auto& sub : command.subcommands()) all.push_back(sub.get());
    }
    return all;
}

/// The lines of `text`, none of which may be wider than 80 columns.
std::vector<std::string> help_lines(const std::string& text) {
    std::istringstream in{text};
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) {
        // A command line in an example stays on one line, so that it can be copied.
        if (!line.starts_with("  tpx ") && !line.starts_with("Usage: ")) CHECK_MESSAGE(line.size() <= 80, line);
        lines.push_back(line);
    }
    return lines;
}

}  // namespace

TEST_CASE("every summary begins with a capital and has no full stop") {
    Cli cli;
    add_commands(cli);
    for (const Command* each : all_commands(cli)) {
        const Command& command = *each;
        CAPTURE(command.name());
        CHECK(in_house_style(command.summary()));
        for (const Option& option : command.options()) {
            CAPTURE(option.name());
            CHECK(in_house_style(option.summary()));
            if (!option.details().empty()) CHECK(option.details().ends_with('.'));
        }
    }
}

TEST_CASE("an option has the same meaning in every command") {
    Cli cli;
    add_commands(cli);
    std::set<std::string> names;
    for (const Command* each : all_commands(cli)) {
        const Command& command = *each;
        std::set<std::string> own;
        for (const Option& option : command.options()) {
            CHECK(own.insert(option.name()).second);
            for (const Command* other : all_commands(cli)) {
                const Option* twin = option.positional() ? nullptr : other->find(option.name());
                if (!twin) continue;
                CAPTURE(option.name());
                CHECK(twin->short_name() == option.short_name());
                // --restart restarts a conversion, or is the seconds that a job needs to restart.
                if (option.name() != "--dtype" && option.name() != "--restart") CHECK(twin->value() == option.value());
            }
        }
        for (const auto& group : command.exclusions())
            for (const std::string& name : group) CHECK(command.find(name) != nullptr);
    }
}

TEST_CASE("the first screen of a help shows purpose and examples; all options follow, each with its group") {
    Cli cli;
    add_commands(cli);
    CHECK(help_lines(help(cli)).size() <= 30);
    for (const Command* each : all_commands(cli)) {
        const Command& command = *each;
        CAPTURE(command.name());
        const std::string text = help(command);
        const std::vector<std::string> lines = help_lines(text);
        CHECK(!command.examples().empty());
        CHECK(!command.purpose().empty());
        std::size_t before_options = 0;
        while (before_options < lines.size() && lines[before_options] != "Arguments:" &&
               !lines[before_options].ends_with("options:"))
            ++before_options;
        CHECK(before_options <= 24);
        for (const Option& option : command.options()) {
            CAPTURE(option.name());
            CHECK(text.find("\n" + option.group() + ":\n") != text.npos);
            CHECK(text.find("\n  " + flags(option)) != text.npos);
        }
    }
}
