// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/shared_options.hpp"
#include "cmd/rules/rules.hpp"

#include <memory>

namespace tpx::cli {
namespace {

void add_suggest(Command& rules) {
    auto options = std::make_shared<RulesSuggestOptions>();
    Command& command = rules.subcommand("suggest", "Draft a rules file for a model of an unknown family");
    command.purpose(
        "Writes a complete rules file, to be used with --rules, from the tensor names and shapes of CKPT and its "
        "config.json. Comments name the nearest known family, what differs, and what a person must review.");
    command.positional("CKPT", &options->checkpoint, "Checkpoint with Hugging Face names").required().file();
    command.group("Output options");
    command.option("-o,--output", &options->output, "FILE", "Write the draft to FILE instead of standard output")
        .file();
    add_read_options(command, *options);
    command.common_options();
    command.example("tpx rules suggest model -o model.toml", "draft rules, to be reviewed");
    command.run([options](Output& out) { run_rules_suggest(*options, out); });
}

void add_check(Command& rules) {
    auto options = std::make_shared<RulesCheckOptions>();
    Command& command = rules.subcommand("check", "Check which tensors of a checkpoint a rules file explains");
    command.purpose(
        "Reads CKPT using only the rules in FILE, and lists names that no rule matches, required tensors that CKPT "
        "lacks, and sizes that are unknown or contradict config.json. The exit status is 3 unless FILE explains "
        "everything.");
    command.positional("FILE", &options->file, "Rules file (TOML); see tpx-rules(5)").required().file();
    command.positional("CKPT", &options->checkpoint, "Checkpoint: a folder or a file").required().file();
    add_read_options(command, *options);
    command.common_options();
    command.example("tpx rules check model.toml model", "before tpx reshard --rules model.toml");
    command.run([options](Output& out) { run_rules_check(*options, out); });
}

}  // namespace

void add_rules(Cli& cli) {
    Command& rules = cli.command("rules", "Draft and check rules for a new model family");
    add_suggest(rules);
    add_check(rules);
    rules.purpose(
        "Helps to write a rules file for a model of an unknown family: suggest drafts the file, and check lists what "
        "it does not explain. A rules file is TOML: [dims] has the sizes of the model, [tensors] the axes of each "
        "tensor, and [dialects.NAME] its name in each framework. tpx-rules(5) describes the notation.");
    rules.example("tpx rules suggest model -o model.toml", "draft rules, to be reviewed");
    rules.example("tpx rules check model.toml model", "list what they do not explain");
}

}  // namespace tpx::cli
