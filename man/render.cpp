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
#include <sstream>

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

// One sentence a line, references as macros, lines below 80 columns: as mdoc is written by hand. In `page` itself a
// reference to it is "this page".
std::string prose(std::string_view text, std::string_view page) {
    std::istringstream words{std::string{text}};
    std::string out, line;
    const auto end_line = [&] {
        if (!line.empty()) out += roff(line) + "\n";
        line.clear();
    };
    for (std::string word; words >> word;) {
        const std::size_t open = page_reference(word);
        if (open != word.npos && word.substr(0, open) == page) {
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

// The aliases of an option: "hf stands for safetensors, mcore stands for torch_dist."
std::string aliases(const Option& option) {
    std::string out;
    for (const auto& words : option.aliases())
        out += fmt::format(".Cm {}\nstands for\n.Cm {}{}\n", words.first, words.second,
                           &words == &option.aliases().back() ? " ." : " ,");
    return out;
}

std::string option_list(const Command& command, const std::string& of_page) {
    const std::string page = "tpx-" + of_page;
    std::string out = ".Bl -tag -width Ds\n";
    for (const Option& option : command.options()) {
        if (option.positional()) continue;
        out += fmt::format(".It {}\n{}", words_of(option), prose(option.summary() + ".", page));
        if (!option.choices().empty()) {
            const auto& choices = option.choices();
            out += "One of\n";
            for (const std::string& choice : choices)
                out += fmt::format(".Cm {}{}\n", choice, &choice == &choices.back() ? " ." : " ,");
        }
        out += aliases(option);
        if (!option.standard().empty()) out += prose(fmt::format("The default is {}.", option.standard()), page);
        out += prose(option.details(), page);
    }
    return out + ".El\n";
}

// In the synopsis a name is enough: "Op Fl -json", or all of a group in one pair of brackets.
std::string synopsis(const Command& command) {
    std::string options, positionals;
    std::vector<std::string> done;
    const auto word = [](const Option& option) {
        const std::string name = option.positional() ? "Ar " + option.name() : "Fl " + option.name().substr(1);
        return option.takes_value() && !option.positional() ? name + " Ar " + option.value() : name;
    };
    const auto alternatives = [&](const Option& option) {
        std::vector<std::string> all{word(option)};
        done.push_back(option.name());
        for (const auto& group : command.exclusions()) {
            if (std::ranges::find(group, option.name()) == group.end()) continue;
            for (const std::string& name : group) {
                if (name == option.name()) continue;
                all.push_back(word(*command.find(name)));
                done.push_back(name);
            }
        }
        return fmt::format("{}", fmt::join(all, " | "));
    };
    for (const Option& option : command.options()) {
        if (std::ranges::find(done, option.name()) != done.end()) continue;
        const bool optional = !option.is_required() || !option.unless().empty();
        std::string& out = option.positional() ? positionals : options;
        out += fmt::format(".{}{}\n", optional ? "Op " : "", alternatives(option));
        if (option.repeats()) out.back() = ' ', out += "Ns ...\n";
    }
    return options + positionals;
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
        return json_documents(folder / "schemas", [](const std::string& text) { return prose(text, "tpx-json"); });
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
