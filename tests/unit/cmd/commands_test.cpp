// SPDX-License-Identifier: Apache-2.0
#include "cmd/commands.hpp"

#include "cmd/help.hpp"

#include <doctest/doctest.h>

#include <cctype>
#include <set>
#include <sstream>

using namespace tpx::cli;

namespace {

bool in_house_style(const std::string& summary) {
    return !summary.empty() && summary.size() <= 60 && std::isupper(static_cast<unsigned char>(summary.front())) &&
           !summary.ends_with('.') && summary.find('\n') == summary.npos;
}

// All commands, and the commands of these.
std::vector<const Command*> all_commands(const Cli& cli) {
    std::vector<const Command*> all;
    for (const Command& command : cli.commands()) {
        all.push_back(&command);
        for (const auto& sub : command.subcommands()) all.push_back(sub.get());
    }
    return all;
}

bool fits_screen(const std::string& text) {
    std::istringstream lines{text};
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count)
        if (line.size() > 80) return false;
    return count <= 24;
}

}  // namespace

TEST_CASE("every summary is a capital, at most 60 characters and no full stop") {
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

TEST_CASE("an option means the same in every command") {
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
                if (option.name() != "--dtype") CHECK(twin->value() == option.value());
            }
        }
        for (const auto& group : command.exclusions())
            for (const std::string& name : group) CHECK(command.find(name) != nullptr);
    }
}

TEST_CASE("every help fits a screen, and built commands show an example") {
    Cli cli;
    add_commands(cli);
    CHECK(fits_screen(help(cli)));
    for (const Command* each : all_commands(cli)) {
        const Command& command = *each;
        CAPTURE(command.name());
        CHECK(fits_screen(help(command)));
        CHECK(command.built() == !command.examples().empty());
    }
}
