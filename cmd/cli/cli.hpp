// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/numbers.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tpx::cli {

class Output;

/// A whole number that an option sets; empty: not given.
using Integer = std::optional<std::int64_t>;

/// A number that may have a fraction; empty: not given.
struct Decimal : std::optional<double> {};

/// Seconds, given as "90s", "2min", "1h" or "30d"; empty: not given.
struct Duration : std::optional<double> {};

/// Bytes per second, given as "25GB/s" or "200Gbit/s"; empty: not given.
struct Rate : std::optional<double> {};

/// A rate of reads and one of writes, given as "5GB/s,2GB/s"; one rate is for both; empty: not given.
struct ReadWriteRates {
    Rate read, write;
};

/// Where a parsed value goes: a switch, a text, every text given, a size in bytes ("64MiB"), or a number of another
/// kind.
using OptionTarget = std::variant<bool*, std::string*, std::vector<std::string>*, std::optional<std::uint64_t>*,
                                  Integer*, Decimal*, Duration*, Rate*, ReadWriteRates*>;

/// What TAB offers for a value.
enum class Completion { nothing, choices, suggestions, list, file, layout };

/// One option or positional argument, described once: parsing, --help, the manual page and TAB read this record.
class Option {
public:
    /// `names` is "--long", "-s,--long", or "NAME" for a positional; `value` is empty for a switch.
    Option(std::string_view names, OptionTarget target, std::string_view value, std::string_view summary);

    /// Makes the option required, unless one of the options named `unless` is given.
    Option& required(std::vector<std::string> unless = {});
    /// The default value, as --help prints it: "512MiB", "the format of CKPT".
    Option& default_value(std::string_view text);
    /// The only values allowed.
    Option& choices(std::vector<std::string> values);
    /// Values that TAB offers; other values are allowed, too.
    Option& suggestions(std::vector<std::string> values);
    /// Aliases of choices: (alias, choice).
    Option& aliases(std::vector<std::pair<std::string, std::string>> words);
    /// Any of these values, separated by commas. The target must be a list; it gets one element per value.
    Option& any_of(std::vector<std::string> values);
    /// The value is a path.
    Option& file();
    /// The value is a layout text or a file with one.
    Option& layout();
    /// The limits of a whole number; without this, from 1 to 2147483647.
    Option& range(std::int64_t least, std::int64_t most);
    /// The lower limit of a Decimal, a Duration or a Rate; without this, 0, which a Duration must exceed.
    Option& at_least(double least);
    /// The exclusive lower limit of a Decimal.
    Option& above(double least);
    /// The upper limit of a Decimal or a Duration; without this, there is none.
    Option& at_most(double most);
    /// Whole sentences that the manual page adds to the summary.
    Option& details(std::string_view text);

    bool positional() const { return long_name_.empty(); }
    /// False for a switch.
    bool takes_value() const { return !value_.empty(); }
    /// True when it may be given more than once.
    bool repeats() const { return std::holds_alternative<std::vector<std::string>*>(target_); }
    bool is_required() const { return required_; }
    /// The heading under which --help lists the option; "Arguments" for a positional.
    const std::string& group() const { return group_; }
    void set_group(std::string_view heading) { group_ = heading; }
    const std::vector<std::string>& unless() const { return unless_; }
    /// "CKPT" for a positional, else "--to".
    const std::string& name() const { return positional() ? value_ : long_name_; }
    /// "-q", or empty.
    const std::string& short_name() const { return short_name_; }
    const std::string& value() const { return value_; }
    const std::string& summary() const { return summary_; }
    const std::string& details() const { return details_; }
    const std::string& default_value() const { return default_value_; }
    const std::vector<std::string>& choices() const { return choices_; }
    const std::vector<std::string>& suggestions() const { return suggestions_; }
    const std::vector<std::pair<std::string, std::string>>& aliases() const { return aliases_; }
    Completion completes() const { return completes_; }

    /// Checks `values`, in the order of the command line, and stores them in the target. Throws Error (usage).
    void store(const std::vector<std::string>& values) const;

private:
    std::int64_t whole_number(const std::string& text) const;
    void store_number(const std::string& text) const;

    std::string long_name_, short_name_, value_, summary_, details_, default_value_, group_;
    std::vector<std::string> unless_, choices_, suggestions_;
    std::vector<std::pair<std::string, std::string>> aliases_;
    OptionTarget target_;
    std::int64_t least_ = 1, most_ = std::numeric_limits<int>::max();
    NumberLimits limits_;
    Completion completes_ = Completion::nothing;
    bool required_ = false;
};

/// An example in --help: a command line, and what it does.
struct Example {
    std::string line;
    std::string caption;
};

/// One command of tpx: its help, its options and its action.
class Command {
public:
    Command(std::string_view name, std::string_view summary);
    Command(const Command&) = delete;
    Command& operator=(const Command&) = delete;

    /// Adds an option, "--long" or "-s,--long", that takes a value; `value` is its name in --help.
    Option& option(std::string_view names, OptionTarget target, std::string_view value, std::string_view summary);
    /// Adds an option without a value.
    Option& flag(std::string_view names, bool* target, std::string_view summary);
    /// Adds a positional argument. If the target is a list, it takes all remaining positional arguments and must be the
    /// last.
    Option& positional(std::string_view name, OptionTarget target, std::string_view summary);
    /// Starts a group of options with this heading in --help; options added from here on belong to it.
    void group(std::string_view heading) { group_ = heading; }
    /// What the command is for: a paragraph that --help prints below the summary, at most five lines of 80 columns.
    void purpose(std::string_view text) { purpose_ = text; }
    /// At most one of these options can be given.
    void exclusive(std::vector<std::string> names);
    void example(std::string_view line, std::string_view caption);
    /// What the command does, once its options are parsed.
    void run(std::function<void(Output&)> body) { body_ = std::move(body); }
    /// Adds a subcommand, such as "tpx profile fit". A command with subcommands has no other options than --help.
    Command& subcommand(std::string_view name, std::string_view summary);
    /// Adds --json, --quiet and --help. Must be the last call that adds options.
    void common_options();

    const std::string& name() const { return name_; }
    const std::string& summary() const { return summary_; }
    const std::string& purpose() const { return purpose_; }
    const std::deque<Option>& options() const { return options_; }
    const std::vector<std::vector<std::string>>& exclusions() const { return exclusions_; }
    const std::vector<Example>& examples() const { return examples_; }
    /// The subcommands; name() returns their full names, such as "profile fit".
    const std::vector<std::unique_ptr<Command>>& subcommands() const { return subcommands_; }
    /// The subcommand `word`, such as "fit". Throws Error (usage).
    Command& find_subcommand(std::string_view word);
    /// The command that parse() selected: one of the subcommands, or this command.
    Command& chosen() { return chosen_ ? *chosen_ : *this; }
    /// The option called `name` ("--to", "-o"), or null.
    const Option* find(std::string_view name) const;

    /// Fills the targets of the options from the words after the command's name; opens no file. Throws Error (usage).
    void parse(std::span<const std::string> words);
    bool help() const { return help_; }
    bool json() const { return json_; }
    bool quiet() const { return quiet_; }
    void operator()(Output& out) const { body_(out); }

private:
    void parse_subcommand(std::span<const std::string> words);

    std::string name_, summary_, purpose_;
    std::string group_ = "Options";
    std::deque<Option> options_;  // a deque, so that references to options stay valid
    std::vector<std::vector<std::string>> exclusions_;
    std::vector<Example> examples_;
    std::function<void(Output&)> body_;
    std::vector<std::unique_ptr<Command>> subcommands_;
    Command* chosen_ = nullptr;
    bool help_ = false, json_ = false, quiet_ = false;
};

/// The commands of tpx, in the order of the help.
class Cli {
public:
    Command& command(std::string_view name, std::string_view summary);
    const std::deque<Command>& commands() const { return commands_; }
    /// The command called `name`. Throws Error (usage) with the nearest names if there is none.
    Command& find(std::string_view name);

private:
    std::deque<Command> commands_;
};

/// The version of this program: "0.1.0".
std::string_view version();

}  // namespace tpx::cli
