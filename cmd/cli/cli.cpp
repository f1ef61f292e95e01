// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/cli.hpp"

#include "cmd/cli/numbers.hpp"
#include "cmd/version.hpp"
#include "lib/core/error.hpp"
#include "lib/core/nearest.hpp"
#include "lib/core/units.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

namespace tpx::cli {
namespace {

/// Names that users of other tools may try, and the command to suggest.
constexpr auto synonyms =
    std::to_array<std::pair<std::string_view, std::string_view>>({{"convert", "reshard"},
                                                                  {"merge", "reshard"},
                                                                  {"split", "reshard"},
                                                                  {"consolidate", "reshard"},
                                                                  {"export", "reshard"},
                                                                  {"import", "reshard"},
                                                                  {"copy", "reshard"},
                                                                  {"cp", "reshard"},
                                                                  {"transform", "reshard"},
                                                                  {"translate", "reshard"},
                                                                  {"show", "inspect"},
                                                                  {"info", "inspect"},
                                                                  {"ls", "inspect"},
                                                                  {"list", "inspect"},
                                                                  {"cat", "inspect"},
                                                                  {"dump", "inspect"},
                                                                  {"stat", "inspect"},
                                                                  {"diff", "verify"},
                                                                  {"cmp", "verify"},
                                                                  {"compare", "verify"},
                                                                  {"check", "verify"},
                                                                  {"validate", "verify"},
                                                                  {"move", "migrate"},
                                                                  {"transfer", "migrate"},
                                                                  {"bench", "profile hardware"},
                                                                  {"benchmark", "profile hardware"},
                                                                  {"fit", "profile fit"},
                                                                  {"predict", "profile predict"},
                                                                  {"sim", "simulate"},
                                                                  {"schedule", "simulate"},
                                                                  {"scheduler", "simulate"},
                                                                  {"resize", "reshard"},
                                                                  {"resharding", "reshard"},
                                                                  {"suggest", "rules suggest"},
                                                                  {"store", "inspect --store"},
                                                                  {"version", "--version"},
                                                                  {"man", "help"}});

/// "; did you mean 'reshard'?" for 'conver', a misspelled synonym.
std::string near_synonym(std::string_view name) {
    if (name.size() < 3) return {};  // a word this short resembles many others
    std::vector<std::string> words;
    for (const auto& [word, command] : synonyms) words.emplace_back(word);
    const std::vector<std::string> near = nearest(name, words);
    if (near.empty()) return {};
    const auto* meant = std::ranges::find(synonyms, near.front(), [](const auto& pair) { return pair.first; });
    return fmt::format("; did you mean '{}'?", meant->second);
}

/// Whether two words are equal, ignoring case.
bool same_letters(std::string_view a, std::string_view b) {
    const auto lower = [](unsigned char c) { return std::tolower(c); };
    return std::ranges::equal(a, b, {}, lower, lower);
}

std::vector<std::string> split_at_commas(const std::vector<std::string>& texts) {
    std::vector<std::string> words;
    for (const std::string& text : texts) {
        std::size_t begin = 0;
        for (std::size_t comma = 0; comma != text.npos; begin = comma + 1) {
            comma = text.find(',', begin);
            words.push_back(text.substr(begin, comma == text.npos ? comma : comma - begin));
        }
    }
    return words;
}

}  // namespace

Option::Option(std::string_view names, OptionTarget target, std::string_view value, std::string_view summary)
    : value_{value}, summary_{summary}, target_{target} {
    if (!names.starts_with('-')) {
        value_ = names;
        return;
    }
    const std::size_t comma = names.find(',');
    if (comma != names.npos) short_name_ = names.substr(0, comma);
    long_name_ = comma == names.npos ? names : names.substr(comma + 1);
    limits_.above = std::holds_alternative<Duration*>(target);
}

Option& Option::required(std::vector<std::string> unless) {
    required_ = true;
    unless_ = std::move(unless);
    return *this;
}

Option& Option::default_value(std::string_view text) {
    default_value_ = text;
    return *this;
}

Option& Option::suggestions(std::vector<std::string> values) {
    suggestions_ = std::move(values);
    completes_ = Completion::suggestions;
    return *this;
}

Option& Option::choices(std::vector<std::string> values) {
    choices_ = std::move(values);
    completes_ = Completion::choices;
    return *this;
}

Option& Option::aliases(std::vector<std::pair<std::string, std::string>> words) {
    aliases_ = std::move(words);
    return *this;
}

Option& Option::any_of(std::vector<std::string> values) {
    choices_ = std::move(values);
    completes_ = Completion::list;
    return *this;
}

Option& Option::file() {
    completes_ = Completion::file;
    return *this;
}

Option& Option::layout() {
    completes_ = Completion::layout;
    return *this;
}

Option& Option::range(std::int64_t least, std::int64_t most) {
    least_ = least;
    most_ = most;
    return *this;
}

Option& Option::at_least(double least) {
    limits_.least = least;
    limits_.above = false;
    return *this;
}

Option& Option::above(double least) {
    limits_.least = least;
    limits_.above = true;
    return *this;
}

Option& Option::at_most(double most) {
    limits_.most = most;
    return *this;
}

Option& Option::details(std::string_view text) {
    details_ = text;
    return *this;
}

std::int64_t Option::whole_number(const std::string& text) const {
    std::int64_t number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = end == text.data() + text.size() && code != std::errc::invalid_argument;
    const bool out_of_range = code == std::errc::result_out_of_range;
    const bool large = out_of_range ? !text.starts_with('-') : number > most_;
    if (whole && !large && !out_of_range && number >= least_) return number;
    // Such a type's limit is not what the option is about.
    const bool is_limited =
        most_ != std::numeric_limits<int>::max() && most_ != std::numeric_limits<std::int64_t>::max();
    if (is_limited) throw usage_error("{}: '{}' is not a whole number from {} to {}", name(), text, least_, most_);
    if (whole && large) throw usage_error("{}: '{}' is too large (at most {})", name(), text, most_);
    throw usage_error("{}: '{}' is not a whole number of at least {}", name(), text, least_);
}

void Option::store(const std::vector<std::string>& given) const {
    if (given.empty()) return;
    std::vector<std::string> values = completes_ == Completion::list ? split_at_commas(given) : given;
    for (std::string& value : values) {
        const auto alias =
            std::ranges::find_if(aliases_, [&](const auto& words) { return same_letters(words.first, value); });
        const auto choice = std::ranges::find_if(choices_, [&](const auto& word) { return same_letters(word, value); });
        if (alias != aliases_.end()) value = alias->second;
        if (choice != choices_.end()) value = *choice;
    }
    if (values.size() > 1 && takes_value() && !repeats()) throw usage_error("{}: given more than once", name());
    for (const std::string& value : values) {
        if (value.empty() && takes_value()) throw usage_error("{}: the value is empty", name());
        if (!choices_.empty() && std::ranges::find(choices_, value) == choices_.end())
            throw usage_error("{}: unknown value '{}'; use {}{}", name(), value, one_of(choices_),
                              choices_.size() == 1 ? "" : did_you_mean(value, choices_));
    }
    if (auto* const* on = std::get_if<bool*>(&target_)) **on = true;
    if (auto* const* text = std::get_if<std::string*>(&target_)) **text = values.front();
    if (auto* const* texts = std::get_if<std::vector<std::string>*>(&target_)) **texts = values;
    if (auto* const* number = std::get_if<Integer*>(&target_)) **number = whole_number(values.front());
    in_context([&] { return name(); }, [&] { store_number(values.front()); });
}

void Option::store_number(const std::string& text) const {
    if (auto* const* size = std::get_if<std::optional<std::uint64_t>*>(&target_)) **size = parse_bytes(text);
    if (auto* const* decimal = std::get_if<Decimal*>(&target_)) (*decimal)->emplace(parse_decimal(text, limits_));
    if (auto* const* time = std::get_if<Duration*>(&target_)) (*time)->emplace(parse_duration(text, limits_));
    if (auto* const* rate = std::get_if<Rate*>(&target_)) (*rate)->emplace(parse_rate_above(text, limits_.least));
    if (auto* const* both = std::get_if<ReadWriteRates*>(&target_)) {
        const std::size_t comma = text.find(',');
        (*both)->read.emplace(parse_rate(text.substr(0, comma)));
        (*both)->write.emplace(comma == text.npos ? *(*both)->read : parse_rate(text.substr(comma + 1)));
    }
}

Command::Command(std::string_view name, std::string_view summary) : name_{name}, summary_{summary} {}

Option& Command::option(std::string_view names, OptionTarget target, std::string_view value, std::string_view summary) {
    Option& added = options_.emplace_back(names, target, value, summary);
    added.set_group(added.positional() ? "Arguments" : group_);
    return added;
}

Option& Command::flag(std::string_view names, bool* target, std::string_view summary) {
    return option(names, target, "", summary);
}

Option& Command::positional(std::string_view name, OptionTarget target, std::string_view summary) {
    return option(name, target, "", summary);
}

void Command::exclusive(std::vector<std::string> names) { exclusions_.push_back(std::move(names)); }

void Command::example(std::string_view line, std::string_view caption) {
    examples_.push_back({std::string{line}, std::string{caption}});
}

void Command::common_options() {
    group("General options");
    flag("--json", &json_, "Print the result as one JSON object").details("See tpx-json(7).");
    flag("-q,--quiet", &quiet_, "Print nothing but errors")
        .details(
            "The output of --json, plan --list, profile read and rules suggest, and the differences that verify finds, "
            "are still printed.");
    flag("-h,--help", &help_, "Print this help");
}

Command& Command::subcommand(std::string_view name, std::string_view summary) {
    subcommands_.push_back(std::make_unique<Command>(fmt::format("{} {}", name_, name), summary));
    return *subcommands_.back();
}

Command& Command::find_subcommand(std::string_view word) {
    std::vector<std::string> names;
    for (const std::unique_ptr<Command>& command : subcommands_) {
        names.push_back(command->name().substr(name_.size() + 1));
        if (names.back() == word) return *command;
    }
    if (word.empty()) throw usage_error("command missing; use {}", one_of(names));
    throw usage_error("unknown command '{}'{}", word, did_you_mean(word, names));
}

const Option* Command::find(std::string_view name) const {
    for (const Option& option : options_)
        if (name == option.name() || (!option.short_name().empty() && name == option.short_name())) return &option;
    return nullptr;
}

Command& Cli::command(std::string_view name, std::string_view summary) { return commands_.emplace_back(name, summary); }

Command& Cli::find(std::string_view name) {
    std::vector<std::string> names{"help"};
    for (Command& command : commands_) {
        if (command.name() == name) return command;
        names.push_back(command.name());
    }
    const auto* synonym = std::ranges::find(synonyms, name, [](const auto& words) { return words.first; });
    if (synonym != synonyms.end()) throw usage_error("unknown command '{}'; did you mean '{}'?", name, synonym->second);
    const std::string near = did_you_mean(name, names);
    throw usage_error("unknown command '{}'{}", name, near.empty() ? near_synonym(name) : near);
}

std::string_view version() { return version_text; }

}  // namespace tpx::cli
