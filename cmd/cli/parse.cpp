// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/cli.hpp"
#include "lib/core/error.hpp"
#include "lib/core/nearest.hpp"
#include "lib/layout/layout.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <map>

namespace tpx::cli {
namespace {

constexpr int most_arguments = 1 << 20;

using Given = std::map<const Option*, std::vector<std::string>>;

// The values that `words` give to each option; words that CLI11 cannot assign stay in `app.remaining()`.
Given split(const Command& command, CLI::App& app, std::span<const std::string> words) {
    Given given;
    std::map<const Option*, CLI::Option*> switches;
    app.set_help_flag();
    app.allow_extras();
    for (const Option& option : command.options()) {
        const std::string names =
            option.short_name().empty() ? option.name() : option.short_name() + "," + option.name();
        if (option.positional() && option.repeats())
            app.add_option(names, given[&option])->expected(1, most_arguments)->take_all();
        else if (option.positional() || option.takes_value())
            app.add_option(names, given[&option])->expected(1)->allow_extra_args(false)->take_all();
        else
            switches[&option] = app.add_flag(names)->disable_flag_override();
    }
    std::vector<std::string> backwards(words.rbegin(), words.rend());
    app.parse(std::move(backwards));
    for (const auto& [option, flag] : switches) given[option].resize(flag->count());
    return given;
}

// CLI11 would take "--json" in "--to --json" for a value.
void check_values(const Command& command, std::span<const std::string> words) {
    for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
        const std::string_view word = words[i];
        const std::size_t equals = word.starts_with('-') ? word.find('=') : word.npos;
        const Option* option = command.find(word.substr(0, equals));
        if (!option || option->positional()) continue;
        if (equals != word.npos) {
            if (!option->takes_value()) throw usage_error("{}: takes no value", option->name());
            if (equals + 1 == word.size())  // CLI11 would take the next word
                throw usage_error("{}: the value {} is missing", option->name(), option->value());
        } else if (option->takes_value()) {
            const Option* next = i + 1 < words.size() ? command.find(words[i + 1]) : nullptr;
            if (i + 1 == words.size() || (next && !next->positional()))
                throw usage_error("{}: the value {} is missing", option->name(), option->value());
            ++i;
        }
    }
}

/// What to write instead of an option that tpx does not have: the nearest option, or --to for a key of a layout.
std::string advice(const Command& command, const std::string& name, const std::vector<std::string>& names) {
    const auto keys = layout_keys();
    if (command.find("--to") && name.size() > 3 && std::ranges::find(keys, name.substr(2) + "=") != keys.end())
        return fmt::format("; layouts are given as --to {}=N,...", name.substr(2));
    if (name == "-v" || name == "--verbose") return "; notes and progress are printed unless -q is given";
    if (name == "--version") return "; use 'tpx --version'";
    return did_you_mean(name, names);
}

void refuse_unexpected(const Command& command, const std::vector<std::string>& remaining) {
    std::vector<std::string> names;
    for (const Option& option : command.options())
        if (!option.positional()) names.push_back(option.name());
    for (const std::string& word : remaining) {
        if (!word.starts_with('-') || word == "-" || word == "--") continue;
        const std::string name = word.substr(0, word.find('='));
        throw usage_error("unknown option '{}'{}", name, advice(command, name, names));
    }
    for (const std::string& word : remaining)
        if (word != "--") throw usage_error("unexpected argument '{}'", word);
}

void check_presence(const Command& command, const Given& given) {
    const auto is_given = [&](std::string_view name) {
        const Option* option = command.find(name);
        return option && given.contains(option) && !given.at(option).empty();
    };
    for (const Option& option : command.options()) {
        if (!option.is_required() || is_given(option.name()) || std::ranges::any_of(option.unless(), is_given))
            continue;
        const std::string wanted = option.positional() ? option.name() : option.name() + " " + option.value();
        throw usage_error("{} is missing", option.unless().empty()
                                               ? wanted
                                               : fmt::format("{} (or {})", wanted, one_of(option.unless())));
    }
    for (const std::vector<std::string>& names : command.exclusions()) {
        std::vector<std::string> found;
        std::ranges::copy_if(names, std::back_inserter(found), is_given);
        if (found.size() > 1) throw usage_error("{} and {} exclude each other", found[0], found[1]);
    }
}

}  // namespace

void Command::parse_subcommand(std::span<const std::string> words) {
    help_ = !words.empty() && (words[0] == "-h" || words[0] == "--help");
    if (help_) return;
    chosen_ = &find_subcommand(words.empty() ? "" : words[0]);
    chosen_->parse(words.subspan(1));
}

void Command::parse(std::span<const std::string> words) {
    if (!subcommands_.empty()) return parse_subcommand(words);
    const auto asks_help = [](std::string_view word) { return word == "-h" || word == "--help"; };
    const auto end = std::ranges::find(words, "--");     // what follows are arguments, such as paths
    help_ = std::any_of(words.begin(), end, asks_help);  // even if other words are wrong: the help explains them
    if (help_) return;
    check_values(*this, words);
    CLI::App app;
    Given given;
    try {
        given = split(*this, app, words);
    } catch (const CLI::ParseError& mistake) {
        throw usage_error("{}", mistake.what());
    }
    refuse_unexpected(*this, app.remaining());
    check_presence(*this, given);
    for (const auto& [option, values] : given) option->store(values);
}

}  // namespace tpx::cli
