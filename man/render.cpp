// SPDX-License-Identifier: Apache-2.0
// render_man TEMPLATE PAGE: writes a manual page, with the words of the command it is about filled in.
#include "cmd/cli/cli.hpp"
#include "cmd/cli/help.hpp"
#include "cmd/commands.hpp"
#include "formats/format_map.hpp"
#include "formats/registry.hpp"
#include "lib/core/error.hpp"
#include "man/json_page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

namespace tpx::cli {
namespace {

// Text that roff prints as it is.
std::string roff(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '\\') {
            out += "\\e";
        } else {
            if (out.empty() && (c == '.' || c == '\'')) out += "\\&";
            out += c;
        }
    }
    return out;
}

// The position of the parenthesis in a reference to a page, "tpx-rules(5)" with punctuation after it, or npos.
std::size_t page_reference(std::string_view word) {
    const std::size_t open = word.find('(');
    const bool page = word.starts_with("tpx") && open != word.npos && word.size() > open + 2 && word[open + 2] == ')';
    return page ? open : word.npos;
}

// One sentence a line, references as macros, lines below 80 columns: as mdoc is written by hand. A reference to `page`,
// such as "tpx-plan(1)", becomes "this page".
std::string prose(std::string_view text, std::string_view page) {
    std::istringstream words{std::string{text}};
    std::string out, line;
    const auto end_line = [&] {
        if (!line.empty()) out += roff(line) + "\n";
        line.clear();
    };
    for (std::string word; words >> word;) {
        const std::size_t open = page_reference(word);
        if (open != word.npos && word.substr(0, open + 3) == page) {
            word = "this page" + word.substr(open + 3);
        } else if (open != word.npos) {
            end_line();
            out += fmt::format(".Xr {} {}", word.substr(0, open), word[open + 1]);
            for (const char mark : word.substr(open + 3)) out += fmt::format(" {}", mark);
            out += "\n";
            continue;
        }
        if (line.size() + word.size() > 76) end_line();
        line += (line.empty() ? "" : " ") + word;
        if (word.ends_with('.')) end_line();
    }
    end_line();
    return out;
}

std::string words_of(const Option& option) {
    if (option.positional()) return "Ar " + option.name();
    std::string text;
    if (!option.short_name().empty()) text += fmt::format("Fl {} , ", option.short_name().substr(1));
    text += "Fl " + option.name().substr(1);
    if (option.takes_value()) text += " Ar " + option.value();
    return text;
}

// The aliases of an option, by value: "hf and huggingface stand for safetensors; mcore stands for torch_dist."
std::string aliases(const Option& option) {
    std::vector<std::pair<std::string, std::vector<std::string>>> groups;
    for (const auto& [alias, value] : option.aliases()) {
        if (groups.empty() || groups.back().first != value) groups.push_back({value, {}});
        groups.back().second.push_back(alias);
    }
    std::string out;
    for (const auto& [value, words] : groups) {
        for (std::size_t i = 0; i < words.size(); ++i) {
            if (i > 0 && i + 1 == words.size()) out += "and\n";
            out += fmt::format(".Cm {}{}\n", words[i], i + 2 < words.size() ? " ," : "");
        }
        out += fmt::format("{} for\n.Cm {}{}\n", words.size() == 1 ? "stands" : "stand", value,
                           &value == &groups.back().first ? " ." : " ;");
    }
    return out;
}

// "One of ...", "Any of ..., separated by commas" or "The only value is ...".
std::string choices(const Option& option) {
    const auto& words = option.choices();
    if (words.empty()) return "";
    const bool is_list = option.completes() == Completion::list;
    std::string out = words.size() == 1 ? "The only value is\n" : is_list ? "Any of\n" : "One of\n";
    for (const std::string& word : words)
        out += fmt::format(".Cm {}{}\n", word, &word != &words.back() || is_list ? " ," : " .");
    return out + (is_list ? "separated by commas.\n" : "");
}

std::string option_list(const Command& command, const std::string& of_page) {
    const std::string page = "tpx-" + of_page + "(1)";
    std::string out = ".Bl -tag -width Ds\n";
    for (const Option& option : command.options()) {
        if (option.positional()) continue;
        out += fmt::format(".It {}\n{}", words_of(option), prose(option.summary() + ".", page));
        out += choices(option);
        out += aliases(option);
        if (!option.default_value().empty())
            out += prose(fmt::format("The default is {}.", option.default_value()), page);
        out += prose(option.details(), page);
    }
    return out + ".El\n";
}

// Options of which the synopsis shows a line of its own, because they exclude most others: "tpx hold --list".
std::vector<std::string> modes(const Command& command) {
    constexpr std::size_t fewest = 4;  // other options that a mode excludes, modes aside
    std::vector<std::string> found;
    while (true) {
        std::map<std::string, std::set<std::string>> excluded;
        for (const auto& group : command.exclusions())
            for (const std::string& name : group)
                for (const std::string& other : group)
                    if (name != other && std::ranges::count(found, other) == 0) excluded[name].insert(other);
        for (const std::string& name : found) excluded.erase(name);
        const auto most = std::ranges::max_element(excluded, {}, [](const auto& entry) { return entry.second.size(); });
        if (most == excluded.end() || most->second.size() < fewest) break;
        found.push_back(most->first);
    }
    std::vector<std::string> in_order;
    for (const Option& option : command.options())
        if (std::ranges::count(found, option.name()) > 0) in_order.push_back(option.name());
    return in_order;
}

bool are_exclusive(const Command& command, const std::string& a, const std::string& b) {
    return std::ranges::any_of(command.exclusions(), [&](const std::vector<std::string>& group) {
        return std::ranges::count(group, a) > 0 && std::ranges::count(group, b) > 0;
    });
}

std::string synopsis_words(const Option& option) {
    const std::string name = option.positional() ? "Ar " + option.name() : "Fl " + option.name().substr(1);
    return option.takes_value() && !option.positional() ? name + " Ar " + option.value() : name;
}

// The options that the synopsis shows with `option` as alternatives in one pair of brackets, and `option` itself: those
// of its group of exclusions, if neither it nor they are in another group that matters among `shown`.
std::vector<const Option*> alternatives(const Command& command, const Option& option,
                                        const std::vector<const Option*>& shown) {
    const auto is_shown = [&](const std::string& name) { return std::ranges::count(shown, command.find(name)) > 0; };
    const auto groups_of = [&](const std::string& name) {
        std::vector<const std::vector<std::string>*> groups;
        for (const auto& group : command.exclusions())
            if (std::ranges::count(group, name) > 0 && std::ranges::all_of(group, is_shown)) groups.push_back(&group);
        return groups;
    };
    const auto groups = groups_of(option.name());
    const auto is_single = [&](const std::string& name) { return groups_of(name).size() == 1; };
    if (groups.size() != 1 || !std::ranges::all_of(*groups[0], is_single)) return {&option};
    std::vector<const Option*> all;
    for (const std::string& name : *groups[0]) all.push_back(command.find(name));
    return all;
}

// A line of the synopsis: "Op Fl -json", or alternatives in one pair of brackets. With `mode`, the line of that option.
std::string synopsis_line(const Command& command, const std::vector<std::string>& hidden, const std::string& mode) {
    const auto is_hidden = [&](const std::string& name) {
        return name != mode &&
               (std::ranges::count(hidden, name) > 0 || (!mode.empty() && are_exclusive(command, mode, name)));
    };
    std::vector<const Option*> shown;
    for (const Option& option : command.options())
        if (!is_hidden(option.name())) shown.push_back(&option);
    const auto is_needed = [&](const Option& option) {
        if (option.name() == mode) return true;
        if (!option.is_required()) return false;
        return std::ranges::all_of(option.unless(),
                                   [&](const std::string& other) { return other != mode && is_hidden(other); });
    };
    std::string options, positionals;
    std::vector<const Option*> done;
    for (const Option* option : shown) {
        if (std::ranges::count(done, option) > 0) continue;
        std::vector<std::string> words;
        for (const Option* other : alternatives(command, *option, shown)) {
            done.push_back(other);
            words.push_back(synopsis_words(*other));
        }
        std::string& out = option->positional() ? positionals : options;
        out += fmt::format(".{}{}\n", is_needed(*option) ? "" : "Op ", fmt::join(words, " | "));
        if (option->repeats()) out.back() = ' ', out += "Ns ...\n";
    }
    return options + positionals;
}

// One line for each mode, after the line without any.
std::string synopsis(const Command& command) {
    const std::vector<std::string> special = modes(command);
    std::string out = synopsis_line(command, special, "");
    for (const std::string& mode : special)
        out += fmt::format(".Nm tpx {}\n{}", command.name(), synopsis_line(command, special, mode));
    return out;
}

std::string command_list(const Cli& cli) {
    std::string out = ".Bl -tag -width simulate\n";
    for (const Command& command : cli.commands()) {
        out += fmt::format(".It Cm {}\n{}.\n", command.name(), roff(command.summary()));
        out += fmt::format("See\n.Xr tpx-{} 1 .\n", command.name());
    }
    return out + ".El\n";
}

// `CODE` in a title becomes a literal.
std::string literals(std::string_view title) {
    std::string out;
    bool code = false;
    for (const char c : title) {
        if (c == '`')
            out += (code = !code) ? "\\fB" : "\\fP";
        else
            out += c;
    }
    return out;
}

std::string format_list() {
    std::string out;
    for (const formats::Format format : formats::drivers()) {
        std::vector<std::string> facts;
        const std::string written = formats::written_text(*format);
        facts.push_back(written.empty()    ? "only read"
                        : written == "yes" ? "written from any"
                                           : fmt::format("written {}", written));
        if (format->knows_optimizer) facts.emplace_back("optimizer");
        if (format->keeps_values) facts.emplace_back("state");
        if (format->is_resharded) facts.emplace_back("resharded");
        out += fmt::format(".It Cm {}\n{}.\n.br\n{}.\n", format->name, literals(format->title), fmt::join(facts, ", "));
    }
    return out;
}

std::string lower_first(std::string text) {
    text[0] = char(std::tolower(static_cast<unsigned char>(text[0])));
    return text;
}

// The text that replaces a placeholder, or the line itself. `folder` contains the templates.
std::string fill(const std::string& line, Cli& cli, const std::string& command, const std::filesystem::path& folder) {
    if (line == "@JSON_DOCUMENTS@")
        return json_documents(folder / "schemas", [](const std::string& text) { return prose(text, "tpx-json(7)"); });
    if (line == "@FORMATS@") return format_list();
    if (line == "@COMMANDS@") return command_list(cli);
    if (line.starts_with("@OPTIONS ") || line.starts_with("@SYNOPSIS ")) {  // "@OPTIONS fit@": of a command's command
        const std::size_t blank = line.find(' ');
        const Command& sub = cli.find(command).find_subcommand(line.substr(blank + 1, line.size() - blank - 2));
        return line.starts_with("@OPTIONS") ? option_list(sub, command) : synopsis(sub);
    }
    if (line == "@OPTIONS@") return option_list(cli.find(command), command);
    if (line == "@SYNOPSIS@") return synopsis(cli.find(command));
    if (line == ".Nd @SUMMARY@") return fmt::format(".Nd {}\n", lower_first(cli.find(command).summary()));
    return line + "\n";
}

void render(const std::filesystem::path& source, const std::filesystem::path& target) {
    Cli cli;
    add_commands(cli);
    std::string name = source.filename().string();  // "tpx-plan.1.in"
    name = name.substr(0, name.find('.'));
    const std::string command = name.starts_with("tpx-") ? name.substr(4) : name;
    std::ifstream in{source};
    std::ofstream out{target};
    for (std::string line; std::getline(in, line);) out << fill(line, cli, command, source.parent_path());
    if (!in.eof() || !out.flush()) throw failure("{}: cannot be made from {}", target.string(), source.string());
}

}  // namespace
}  // namespace tpx::cli

int main(int argc, char** argv) try {
    if (argc != 3) throw tpx::failure("render_man TEMPLATE PAGE");
    tpx::cli::render(argv[1], argv[2]);
    return 0;
} catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
}
