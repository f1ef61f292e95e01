// SPDX-License-Identifier: Apache-2.0
#include "cmd/help.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tpx::cli {
namespace {

std::string usage_line(const Command& command) {
    std::string line = fmt::format("Usage: tpx {} [OPTION]...", command.name());
    for (const Option& option : command.options())
        if (option.is_required() && !option.positional()) line += fmt::format(" {}", flags(option));
    for (const Option& option : command.options())
        if (option.positional()) {
            const bool must = option.is_required() && option.unless().empty();
            line += must ? " " + option.name() : " [" + option.name() + "]";
        }
    return line + "\n";
}

const char* note(const Command& command) { return command.built() ? "" : " (not built yet)"; }

std::string summary_with_choices(const Option& option) {
    if (option.choices().empty()) return option.summary();
    return fmt::format("{}: {}", option.summary(), one_of(option.choices()));
}

// The choices are left to the manual where a line of 80 columns has no room for them.
std::string line_of(const Option& option, std::size_t width) {
    constexpr std::size_t screen = 80;
    const std::string full = fmt::format("  {:<{}}  {}\n", flags(option), width, summary_with_choices(option));
    return full.size() <= screen + 1 ? full : fmt::format("  {:<{}}  {}\n", flags(option), width, option.summary());
}

std::string help_of_subcommands(const Command& command) {
    std::string text = fmt::format("Usage: tpx {} COMMAND [OPTION]... ARGUMENT...\n{}.\n\nCommands:\n", command.name(),
                                   command.summary());
    for (const auto& sub : command.subcommands())
        text +=
            fmt::format("  {:<9} {}{}\n", sub->name().substr(command.name().size() + 1), sub->summary(), note(*sub));
    for (const Example& example : command.examples())
        text += fmt::format("\nExample: {}\n  {}\n", example.caption, example.line);
    return text;
}

// The options that the help does not explain, in lines of at most 80 columns.
std::string rare_options(const Command& command) {
    std::string text;
    std::string line = fmt::format("More, in tpx-{}(1):", command.name());
    const std::size_t empty = line.size();
    for (const Option& option : command.options()) {
        if (!option.is_rare()) continue;
        if (line.size() + 1 + option.name().size() > 80) {
            text += line + "\n";
            line.assign(1, ' ');
        }
        line += " " + option.name();
    }
    return text.empty() && line.size() == empty ? "" : "\n" + text + line + "\n";
}

}  // namespace

std::string flags(const Option& option) {
    const std::string value = option.takes_value() && !option.positional() ? " " + option.value() : "";
    const std::string brief = option.short_name().empty() ? "" : option.short_name() + ", ";
    return brief + option.name() + value;
}

std::string help(const Command& command) {
    if (!command.subcommands().empty()) return help_of_subcommands(command);
    std::size_t width = 0;
    for (const Option& option : command.options())
        if (!option.is_rare()) width = std::max(width, flags(option).size());
    std::string text = fmt::format("{}{}{}.\n\n", usage_line(command), command.summary(), note(command));
    for (const Option& option : command.options())
        if (!option.is_rare()) text += line_of(option, width);
    text += rare_options(command);
    for (const Example& example : command.examples())
        text += fmt::format("\nExample: {}\n  {}\n", example.caption, example.line);
    return text;
}

std::string help(const Cli& cli) {
    std::string text =
        "Usage: tpx COMMAND [OPTION]... ARGUMENT...\n"
        "Changes the parallel layout of a training job's checkpoint.\n\nCommands:\n";
    for (const Command& command : cli.commands())
        text += fmt::format("  {:<9} {}{}\n", command.name(), command.summary(), note(command));
    text += fmt::format("  {:<9} {}\n\n", "help", "Explain a command, as 'tpx COMMAND --help' does");
    text += "  -h, --help     Print this help\n      --version  Print the version\n";
    text += "\nExample: whatever layout CKPT has, OUT is cut for 4 tensor-parallel ranks\n";
    return text + "  mpirun -n 4 tpx reshard CKPT OUT --to tp=4\n";
}

}  // namespace tpx::cli
