// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/complete.hpp"

#include "cmd/cli/help_topics.hpp"
#include "lib/layout/layout.hpp"

#include <algorithm>
#include <array>

namespace tpx::cli {
namespace {

using Candidates = std::vector<Candidate>;

// The candidates that begin with `typed`, and all instructions to the shell.
Candidates beginning(std::string_view typed, Candidates candidates) {
    std::erase_if(candidates, [&](const Candidate& c) { return !c.word.starts_with(typed) && c.word[0] != ':'; });
    return candidates;
}

Candidates commands(const Cli& cli) {
    Candidates all;
    for (const Command& command : cli.commands()) all.push_back({command.name(), command.summary()});
    all.push_back({"help", "Show the help of a command"});
    return all;
}

Candidates commands_and_topics(const Cli& cli) {
    Candidates all = commands(cli);
    for (const HelpTopic& topic : help_topics()) all.push_back({std::string{topic.name}, std::string{topic.summary}});
    return all;
}

constexpr std::array<std::array<std::string_view, 2>, 18> layout_meanings{
    {{"tp=", "tensor-parallel ranks"},
     {"pp=", "pipeline stages"},
     {"dp=", "data-parallel ranks"},
     {"cp=", "context-parallel ranks"},
     {"ep=", "expert-parallel ranks"},
     {"etp=", "tensor-parallel ranks of experts"},
     {"vpp=", "model chunks of each stage"},
     {"zero=", "ZeRO stage"},
     {"fsdp=", "ranks that share each parameter"},
     {"hsdp=", "replicas of the fsdp shards"},
     {"efsdp=", "fsdp inside experts, beside ep"},
     {"fsdp_dim=", "axis that fsdp splits"},
     {"first=", "layers of the first stage"},
     {"last=", "layers of the last stage"},
     {"stages=", "layers of each model chunk"},
     {"vn=", "virtual nodes"},
     {"order=", "rank order of the axes, fastest first"},
     {"ranks=", "number of ranks, instead of dp"}}};

std::string layout_meaning(std::string_view key) {
    const auto* found = std::ranges::find(layout_meanings, key, [](const auto& pair) { return pair[0]; });
    return found == layout_meanings.end() ? "" : std::string{(*found)[1]};
}

Candidates layouts(const std::string& typed) {
    const std::size_t comma = typed.rfind(',');
    const std::string before = comma == std::string::npos ? "" : typed.substr(0, comma + 1);
    if (typed.find('=', before.size()) != typed.npos || typed.rfind('[') + 1 > typed.rfind(']') + 1) return {};
    Candidates all;
    if (before.empty()) all.push_back({std::string{complete_files}, ""});
    all.push_back({std::string{complete_partial}, ""});
    for (const std::string& key : layout_keys())
        if (("," + before).find("," + key) == std::string::npos) all.push_back({before + key, layout_meaning(key)});
    return all;
}

// The words that the list `typed` does not contain yet, each after the words that it contains.
Candidates list_items(const std::vector<std::string>& words, const std::string& typed) {
    const std::size_t comma = typed.rfind(',');
    const std::string before = comma == std::string::npos ? "" : typed.substr(0, comma + 1);
    Candidates all{{std::string{complete_partial}, ""}};
    for (const std::string& word : words)
        if (("," + before).find("," + word + ",") == std::string::npos) all.push_back({before + word, ""});
    return all;
}

/// Keys such as "jobs=": each key of a list that `typed` does not contain yet, but no values.
Candidates key_candidates(const Option& option, const std::string& typed) {
    const bool is_list = option.value() == "LIST";
    const std::size_t comma = is_list ? typed.rfind(',') : typed.npos;
    const std::string before = comma == typed.npos ? "" : typed.substr(0, comma + 1);
    if (typed.find('=', before.size()) != typed.npos) return {};
    Candidates all{{std::string{complete_partial}, ""}};
    for (const std::string& key : option.suggestions())
        if (("," + before).find("," + key) == std::string::npos) all.push_back({before + key, ""});
    return all;
}

Candidates word_candidates(const Option& option) {
    Candidates all;
    for (const auto& words : {option.choices(), option.suggestions()})
        for (const std::string& word : words) all.push_back({word, ""});
    return all;
}

Candidates values(const Option& option, const std::string& typed) {
    Candidates all = word_candidates(option);
    switch (option.completes()) {
        case Completion::list:
            return list_items(option.choices(), typed);
        case Completion::nothing:
            return {};
        case Completion::file:
            all.push_back({std::string{complete_files}, ""});
            return all;
        case Completion::layout:
            return layouts(typed);
        case Completion::choices:
            return all;
        case Completion::suggestions:
            return option.suggestions().front().ends_with('=') ? key_candidates(option, typed) : all;
    }
    return all;
}

// What the finished words imply for the word being typed.
struct Context {
    const Option* awaiting = nullptr;  // the option whose value is being typed
    std::vector<const Option*> given;
    std::size_t positionals = 0;
    bool options_ended = false;
};

Context read(const Command& command, std::span<const std::string> words) {
    Context context;
    for (const std::string& word : words) {
        if (context.awaiting) {
            context.awaiting = nullptr;
        } else if (word == "--" && !context.options_ended) {
            context.options_ended = true;
        } else if (word.size() > 1 && word[0] == '-' && !context.options_ended) {
            const std::size_t equals = word.find('=');
            const Option* option = command.find(std::string_view{word}.substr(0, equals));
            if (option) context.given.push_back(option);
            if (option && option->takes_value() && equals == word.npos) context.awaiting = option;
        } else {
            ++context.positionals;
        }
    }
    return context;
}

Candidates option_names(const Command& command, const Context& context) {
    Candidates all;
    for (const Option& option : command.options()) {
        const bool again = option.repeats() || std::ranges::find(context.given, &option) == context.given.end();
        if (!option.positional() && again) all.push_back({option.name(), option.summary()});
    }
    return all;
}

Candidates complete_argument(const Command& command, std::span<const std::string> before, const std::string& typed) {
    const Context context = read(command, before);
    if (context.awaiting) return beginning(typed, values(*context.awaiting, typed));
    if (typed.starts_with('-') && !context.options_ended) {
        const std::size_t equals = typed.find('=');
        if (equals == typed.npos) return beginning(typed, option_names(command, context));
        const Option* option = command.find(std::string_view{typed}.substr(0, equals));
        if (!option || !option->takes_value()) return {};
        Candidates all = beginning(typed.substr(equals + 1), values(*option, typed.substr(equals + 1)));
        for (Candidate& candidate : all)
            if (candidate.word[0] != ':') candidate.word.insert(0, typed, 0, equals + 1);
        return all;
    }
    std::size_t position = 0;
    for (const Option& option : command.options())
        if (option.positional() && (position++ == context.positionals || option.repeats()))
            return beginning(typed, values(option, typed));
    return context.options_ended ? Candidates{} : beginning(typed, option_names(command, context));
}

// Completes the words after the name of a command, the first of which may be the name of a subcommand.
Candidates complete_command(const Command& command, std::span<const std::string> before, const std::string& typed) {
    if (command.subcommands().empty()) return complete_argument(command, before, typed);
    Candidates all;
    for (const auto& sub : command.subcommands()) {
        const std::string name = sub->name().substr(command.name().size() + 1);
        if (!before.empty() && before[0] == name) return complete_argument(*sub, before.subspan(1), typed);
        all.push_back({name, sub->summary()});
    }
    return before.empty() ? beginning(typed, all) : Candidates{};
}

}  // namespace

Candidates complete(const Cli& cli, std::span<const std::string> words) {
    const std::string typed = words.empty() ? "" : words.back();
    if (words.size() <= 1) {
        if (!typed.starts_with('-')) return beginning(typed, commands(cli));
        return beginning(typed, {{"--help", "Print help"}, {"--version", "Print the version"}});
    }
    if (words[0] == "help") return words.size() == 2 ? beginning(typed, commands_and_topics(cli)) : Candidates{};
    for (const Command& command : cli.commands())
        if (command.name() == words[0]) return complete_command(command, words.subspan(1, words.size() - 2), typed);
    return {};
}

}  // namespace tpx::cli
