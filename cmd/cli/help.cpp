// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/help.hpp"

#include "cmd/cli/help_topics.hpp"
#include "lib/core/nearest.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

namespace tpx::cli {
namespace {

constexpr std::size_t screen = 80;

std::string usage_line(const Command& command) {
    std::string line = fmt::format("Usage: tpx {} [OPTION]...", command.name());
    for (const Option& option : command.options())
        if (option.is_required() && !option.positional()) line += fmt::format(" {}", flags(option));
    for (const Option& option : command.options())
        if (option.positional()) {
            const bool must = option.is_required() && option.unless().empty();
            const std::string name = option.name() + (option.repeats() ? "..." : "");
            line += must ? " " + name : " [" + name + "]";
        }
    return line + "\n";
}

/// `text` in lines of at most 80 columns; each but the first begins with `indent` blanks, and the first has `used`
/// columns taken already.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t used) {
    std::istringstream words{std::string{text}};
    std::string out;
    bool first = true;
    for (std::string word; words >> word; first = false) {
        if (!first && used + 1 + word.size() > screen) {
            out += '\n';
            out.append(indent, ' ');
            used = indent;
        } else if (!first) {
            out += ' ';
            ++used;
        }
        out += word;
        used += word.size();
    }
    return out;
}

std::string description(const Option& option) {
    std::string text = option.summary();
    if (!option.choices().empty()) text += fmt::format(": {}", one_of(option.choices()));
    if (!option.default_value().empty()) text += fmt::format(" [default: {}]", option.default_value());
    return text;
}

/// One option: flags and description side by side, or one above the other where the flags are too wide.
std::string entry(const Option& option, std::size_t width) {
    const std::string name = flags(option);
    const std::size_t column = width + 4;
    std::string line = "  " + name;
    if (name.size() > width)
        line += fmt::format("\n{:{}}", "", column);
    else
        line.append(column - 2 - name.size(), ' ');
    return line + wrapped(description(option), column, column) + "\n";
}

std::string option_groups(const Command& command) {
    constexpr std::size_t widest = 24;
    std::size_t width = 0;
    std::vector<std::string> groups{"Arguments"};
    for (const Option& option : command.options()) {
        width = std::max(width, std::min(flags(option).size(), widest));
        if (std::ranges::find(groups, option.group()) == groups.end()) groups.push_back(option.group());
    }
    std::string text;
    for (const std::string& group : groups) {
        std::string entries;
        for (const Option& option : command.options())
            if (option.group() == group) entries += entry(option, width);
        if (!entries.empty()) text += fmt::format("\n{}:\n{}", group, entries);
    }
    return text;
}

std::string examples(const std::vector<Example>& examples) {
    if (examples.empty()) return "";
    std::string text = examples.size() == 1 ? "\nExample:\n" : "\nExamples:\n";
    for (const Example& example : examples)
        text += fmt::format("  {}\n      {}\n", example.line, wrapped(example.caption, 6, 6));
    return text;
}

std::string purpose(const Command& command) {
    return command.purpose().empty() ? "" : fmt::format("\n{}\n", wrapped(command.purpose(), 0, 0));
}

std::string help_of_subcommands(const Command& command) {
    std::string text = fmt::format("Usage: tpx {} COMMAND [OPTION]... [ARGUMENT]...\n\n{}.\n{}\nCommands:\n",
                                   command.name(), command.summary(), purpose(command));
    for (const auto& sub : command.subcommands())
        text += fmt::format("  {:<9} {}\n", sub->name().substr(command.name().size() + 1), sub->summary());
    return text + examples(command.examples()) + fmt::format("\nSee tpx-{}(1) for details.\n", command.name());
}

}  // namespace

std::string flags(const Option& option) {
    const std::string value = option.takes_value() && !option.positional() ? " " + option.value() : "";
    const std::string brief = option.short_name().empty() ? "" : option.short_name() + ", ";
    return brief + option.name() + value;
}

std::string help(const Command& command) {
    if (!command.subcommands().empty()) return help_of_subcommands(command);
    const std::string manual = command.name().substr(0, command.name().find(' '));
    std::string text = fmt::format("{}\n{}.\n{}{}{}", usage_line(command), command.summary(), purpose(command),
                                   examples(command.examples()), option_groups(command));
    return text + fmt::format("\nSee tpx-{}(1) for details.\n", manual);
}

std::string help(const Cli& cli) {
    std::string text =
        "Usage: tpx COMMAND [OPTION]... [ARGUMENT]...\n\n"
        "Reshards, converts, compares and plans training checkpoints: Megatron-core,\n"
        "PyTorch DCP, DeepSpeed, Hugging Face and HDF5, in any parallel layout.\n\nCommands:\n";
    for (const Command& command : cli.commands())
        text += fmt::format("  {:<9} {}\n", command.name(), command.summary());
    std::vector<std::string_view> topics;
    for (const HelpTopic& topic : help_topics()) topics.push_back(topic.name);
    const std::string words = fmt::format("Show the help of a command, or of a topic: {}", fmt::join(topics, ", "));
    text += fmt::format("  {:<9} {}\n", "help", wrapped(words, 12, 12));
    text += "\nOptions:\n  -h, --help     Print this help\n  -v, --version  Print the version\n";
    text += examples({{"tpx reshard hf out --to tp=4,pp=2 --format torch_dist", "Hugging Face to Megatron-core"},
                      {"mpirun -n 4 tpx reshard ckpt out --to tp=4", "same format, for 4 tensor-parallel ranks"}});
    return text +
           "\nExit status: 0 success, 1 failure, 2 usage error, 3 negative result, 4 output\n"
           "complete but a later step failed, 75 stopped (rerun), 130 interrupted.\n";
}

}  // namespace tpx::cli
