// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/shared_options.hpp"

#include "formats/registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace tpx::cli {
namespace {

/// The values of --format.
std::vector<std::string> written_formats() {
    std::vector<std::string> names;
    for (const formats::Format format : formats::drivers())
        if (format->draft != nullptr) names.emplace_back(format->name);
    return names;
}

/// The aliases of the values of --format: (alias, value).
std::vector<std::pair<std::string, std::string>> format_aliases() {
    std::vector<std::pair<std::string, std::string>> words;
    for (const formats::Format format : formats::drivers())
        for (const std::string_view alias : format->aliases) words.emplace_back(alias, format->name);
    return words;
}

}  // namespace

void add_read_options(Command& command, ReadOptions& options) {
    command.group("Source options");
    command.option("--config", &options.config, "FILE", "Model config.json, if CKPT does not contain one")
        .file()
        .details(
            "The file is a model's config.json, or TOML with the same keys. It is required if the checkpoint stores no "
            "configuration, as with PyTorch DCP, because the number of attention heads cannot be inferred from tensor "
            "shapes. For Keras checkpoints, FILE is the model's configuration, or another file of the same model; see "
            "tpx-hdf5(5).");
    command.option("--set", &options.settings, "KEY=VALUE", "Set one configuration key; repeatable")
        .details(
            "For values that no file contains, such as make_vocab_size_divisible_by=64, the multiple to which Megatron "
            "pads the vocabulary.");
    command.option("--rules", &options.rules, "FILE", "Add model families from FILE; repeatable")
        .file()
        .details(
            "The notation is described in tpx-rules(5). A family in FILE replaces the built-in family of the same "
            "name.");
}

void add_target_options(Command& command, TargetOptions& options, std::vector<std::string> unless,
                        std::string_view more) {
    command.group("Target options");
    command.option("--to", &options.to, "LAYOUT", "Target layout, such as tp=4,pp=2")
        .required(std::move(unless))
        .layout()
        .details(
            fmt::format("A layout as described in tpx-layout(5), or the path of a TOML file that contains one.{}{}",
                        more.empty() ? "" : " ", more));
    command.option("-f,--format", &options.format, "F", "Target format")
        .choices(written_formats())
        .aliases(format_aliases())
        .default_value("the format of CKPT");
    command.option("--dialect", &options.dialect, "D", "Names and fusion of the tensors in the output")
        .choices({"hf", "titan", "mcore", "keep"})
        .aliases({{"huggingface", "hf"}, {"torchtitan", "titan"}, {"megatron", "mcore"}})
        .default_value("keep if the format stays the same, else that of the format's framework")
        .details(
            "hf: Hugging Face transformers; titan: torchtitan; mcore: Megatron-core; keep: the names in CKPT. The "
            "framework's dialect is hf for safetensors, titan for dcp, and mcore for the formats of Megatron.");
}

void add_limit_options(Command& command, LimitOptions& options, std::string_view metadata) {
    command.option("-j,--threads", &options.threads, "N", "Threads that read, copy and write in each process")
        .range(1, max_threads)
        .default_value(fmt::format("{}; in a single process all cores, up to 32", options.default_threads));
    command.option("--io-ranks", &options.io_ranks, "N", "Processes on each host that move tensor data")
        .default_value("all")
        .details("Use fewer if some of the processes already saturate the disk or the network.");
    command.option("--memory", &options.memory, "SIZE", "Memory limit per process, such as 4GiB")
        .default_value("none; buffers use 512MiB")
        .details(
            fmt::format("With this option, buffers use what remains of SIZE after all other memory of the process, "
                        "but at least 16MiB.{}{}",
                        metadata.empty() ? "" : " ", metadata));
    command
        .option("--patience", &options.patience, "SECONDS",
                "End if a process or file system makes no progress for SECONDS")
        .default_value("60")
        .details(
            "The message names the unresponsive process and its host, or the blocked operation and its file; the exit "
            "status is 1. Synchronizing and closing a file may take ten times as long.");
}

void add_log_option(Command& command, LimitOptions& options) {
    command.option("--log", &options.log, "FILE", "Append events of the job to FILE, a line of JSON each")
        .file()
        .details(
            "Events are start, note, error, result (the members that --json prints, under the key reshard or migrate) "
            "and end, which contains the exit status; tpx reshard also logs plan and, every ten seconds (twice a "
            "second if FILE is a pipe), progress, and tpx migrate --within logs leaving. Each event has the time in "
            "UTC, the host and the process ID. Notes are logged even with --quiet. The event end is missing if the run "
            "was killed or ended by --patience. The file grows with each run.");
}

void add_technique_options(Command& command, TechniqueOptions& options, std::span<const std::string_view> known,
                           std::string_view subject, std::string_view when) {
    const auto summary = [&](std::string_view text) {
        std::string words = fmt::format("{}{}", when, fmt::format(fmt::runtime(text), subject));
        if (when.empty()) words[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(words[0])));
        return words;
    };
    command.option("--without", &options.without, "LIST", summary("exclude {} that use any of LIST"))
        .any_of({known.begin(), known.end()});
    command
        .option("--only", &options.only, "LIST",
                summary("allow only {} that use nothing but data parallelism and LIST"))
        .any_of({known.begin(), known.end()});
    command.exclusive({"--without", "--only"});
}

std::vector<std::string_view> excluded_techniques(const TechniqueOptions& options,
                                                  std::span<const std::string_view> known) {
    std::vector<std::string_view> result;
    for (const std::string_view technique : known) {
        const bool is_excluded = std::ranges::count(options.without, technique) > 0;
        if (is_excluded || (!options.only.empty() && std::ranges::count(options.only, technique) == 0))
            result.push_back(technique);
    }
    return result;
}

void add_hardware_option(Command& command, std::string& file, std::string_view summary, std::string_view without) {
    command.option("--hardware", &file, "FILE", summary)
        .file()
        .details(
            fmt::format("Each host has the rates of the host with the same name in FILE, otherwise those of the first "
                        "host in FILE.{}{}",
                        without.empty() ? "" : " ", without));
}

}  // namespace tpx::cli
