// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/cli.hpp"
#include "cmd/cli/complete.hpp"
#include "cmd/cli/help.hpp"
#include "cmd/cli/help_topics.hpp"
#include "cmd/commands.hpp"
#include "cmd/jobs/keeper_client.hpp"
#include "cmd/jobs/run_on_ranks.hpp"
#include "cmd/output/output.hpp"
#include "lib/core/nearest.hpp"
#include "lib/core/unexpected.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <vector>

namespace tpx::cli {
namespace {

using Words = std::span<const std::string>;

// Opens /dev/null in place of closed standard streams, with a mode that makes reads and writes fail. Otherwise, a
// checkpoint could get the descriptor of standard output, and the result would be written into the checkpoint.
void occupy_standard_streams() {
    for (int number = 0; number <= 2; ++number)
        if (fcntl(number, F_GETFD) == -1) (void)!open("/dev/null", number == 0 ? O_WRONLY : O_RDONLY);
}

// An exception that escapes from a thread or a destructor ends the process: print a message instead of dumping core.
[[noreturn]] void end_with_message() {
    std::string cause = "unknown";
    try {
        if (std::current_exception()) std::rethrow_exception(std::current_exception());
    } catch (const std::exception& error) {
        cause = error.what();
    } catch (...) {
        cause = "exception of unknown type";
    }
    const std::string text = fmt::format("tpx: internal error: {}; please report this\n", printable(cause));
    std::fputs(text.c_str(), stderr);
    std::_Exit(int(Exit::failure));
}

void print(std::string_view text) {
    Output out{false, false};
    out.result("{}", text);
    out.finish();
}

void answer_completion(const Cli& cli, Words words) {
    std::string text;
    for (const Candidate& candidate : complete(cli, words)) {
        text += candidate.word;
        if (!candidate.description.empty()) text += "\t" + candidate.description;
        text += "\n";
    }
    print(text);
}

/// The command `name`. Throws Error (usage) with the nearest topics or commands, or with all topics if none is near.
Command& find_for_help(Cli& cli, const std::string& name) {
    const bool is_command = std::ranges::find(cli.commands(), name, &Command::name) != cli.commands().end();
    const std::string advice = unknown_topic_advice(name);
    if (!is_command && !advice.empty()) throw Error{Exit::usage, "unknown help topic '{}'{}", name, advice};
    try {
        return cli.find(name);
    } catch (const Error& error) {
        if (std::string_view{error.what()}.ends_with('?')) throw;  // with the nearest commands
    }
    std::vector<std::string> topics;
    for (const HelpTopic& topic : help_topics()) topics.emplace_back(topic.name);
    throw Error{Exit::usage, "unknown help topic '{}'; use a command, or a topic: {}", name, one_of(topics)};
}

void print_help(Cli& cli, Words words) {
    if (words.empty() || words[0] == "help") return print(help(cli));
    if (const HelpTopic* topic = find_help_topic(words[0])) {
        if (words.size() > 1) throw Error{Exit::usage, "unexpected argument '{}'", words[1]};
        return print(topic->text());
    }
    Command& command = find_for_help(cli, words[0]);
    const bool deeper = words.size() > 1 && !command.subcommands().empty();
    if (words.size() > (deeper ? 2 : 1)) throw Error{Exit::usage, "unexpected argument '{}'", words.back()};
    print(help(deeper ? command.find_subcommand(words[1]) : command));
}

void run_command(Command& command, Words words) {
    command.parse(words);
    Command& chosen = command.chosen();
    if (chosen.help()) return print(help(chosen));
    set_command(chosen.name());
    Output out{chosen.json(), chosen.quiet()};
    chosen(out);
    out.finish();
}

void dispatch(Cli& cli, Words words) {
    if (words.empty()) throw Error{Exit::usage, "a command is missing"};
    const std::string& first = words[0];
    if (first == "--complete") return answer_completion(cli, words.subspan(1));
    if (first == "help") return print_help(cli, words.subspan(1));
    if (first == "-h" || first == "--help") return print(help(cli));
    if (first == "-v" || first == "--version") return print(fmt::format("tpx {}\n", version()));
    if (first.starts_with('-'))
        throw Error{Exit::usage, "unknown option '{}'{}", first, did_you_mean(first, {"--help", "--version"})};
    Command& command = cli.find(first);
    try {
        run_command(command, words.subspan(1));
    } catch (Error& error) {
        if (error.exit() == Exit::usage) error.prepend(command.chosen().name());
        throw;
    }
}

/// `message` as one line of printable text, truncated if it is too long for a screen.
std::string one_line(std::string_view message) {
    constexpr std::size_t longest = 4000;
    const std::string line = printable(message.substr(0, longest), "");
    return message.size() > longest ? line + "..." : line;
}

// Only rank 0 prints the error: before ranks communicate, all fail with the same error; afterwards, the error names the
// rank that failed.
int report(Exit exit, std::string_view message, std::string_view advice) {
    const bool color = wants_color(stderr);
    const std::string text =
        fmt::format("{}tpx:{} {}\n{}", color ? "\x1b[31m" : "", color ? "\x1b[0m" : "", one_line(message), advice);
    if (is_first_rank()) {
        std::fputs(text.c_str(), stderr);  // if that fails, there is nowhere left to report it
        print_json_error(exit, message);
    } else {
        // Launchers kill all ranks once one has failed; wait so that rank 0 can print its message first.
        std::this_thread::sleep_for(std::chrono::seconds{2});
    }
    return int(exit);
}

int run(Words words) {
    Cli cli;
    add_commands(cli);
    set_json_errors(std::find(words.begin(), std::ranges::find(words, "--"), "--json") !=
                    std::ranges::find(words, "--"));
    try {
        dispatch(cli, words);
        return int(Exit::success);
    } catch (const ExitRequest& finished) {
        return int(finished.exit);
    } catch (const Error& error) {
        if (error.exit() != Exit::usage)
            return report(error.exit(), replace_held_paths(error.what()) + lost_keepers_note(), "");
        const bool known = !words.empty() && std::ranges::any_of(cli.commands(), [&](const Command& command) {
            return command.name() == words[0];
        });
        const std::string name = known ? " " + cli.find(words[0]).chosen().name() : "";
        return report(error.exit(), error.what(), fmt::format("Try 'tpx{} --help'.\n", name));
    } catch (const std::exception& error) {
        return report(Exit::failure, unexpected(error).what(), "");
    }
}

}  // namespace
}  // namespace tpx::cli

int main(int argc, char** argv) {
    tpx::cli::occupy_standard_streams();
    // If this signal is ignored, a write beyond the file size limit fails with an error that names the file.
    std::signal(SIGXFSZ, SIG_IGN);
    std::set_terminate(tpx::cli::end_with_message);
    const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
    return tpx::cli::run(words);
}
