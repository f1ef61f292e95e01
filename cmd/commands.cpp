// SPDX-License-Identifier: Apache-2.0
#include "cmd/commands.hpp"

#include "cmd/profile.hpp"

#include <memory>

namespace tpx::cli {
namespace {

void add_read_options(Command& command, ReadOptions& options) {
    command.option("--config", &options.config, "FILE", "Dimensions that the checkpoint lacks")
        .file()
        .details(
            "The file is a model's config.json, or TOML with the same keys. It is needed where a checkpoint stores no "
            "configuration, as PyTorch DCP does: head counts cannot be read off the shapes.");
    command.option("--set", &options.settings, "KEY=VALUE", "Set one key of the configuration")
        .details(
            "For what no file tells, such as make_vocab_size_divisible_by=64, to which Megatron pads the vocabulary. "
            "May be given more than once.");
    command.option("--rules", &options.rules, "FILE", "Add or override rules of model families")
        .file()
        .details(
            "The notation is that of tpx-rules(5). A family in FILE replaces the built-in one of the same name. May be "
            "given more than once.");
}

void add_target_options(Command& command, TargetOptions& options, std::string_view unless) {
    command.option("--to", &options.to, "LAYOUT", "Layout to reach, such as tp=4,pp=2")
        .required(unless)
        .layout()
        .details("A layout as tpx-layout(5) describes it, or the name of a TOML file that holds one.");
    command.option("--format", &options.format, "F", "Format to write")
        .choices({"safetensors", "dcp", "torch_dist"})
        .details("The format of the source is the default.");
    command.option("--dialect", &options.dialect, "D", "Tensor names to write")
        .choices({"hf", "titan", "mcore", "keep"})
        .details(
            "The names and fusions are those of Hugging Face transformers, of torchtitan, or of Megatron core. The "
            "default "
            "is keep, as the source stores them, when the format stays the same; else hf for safetensors, titan for "
            "dcp and "
            "mcore for torch_dist. Where the model or its dimensions are not known, names are kept, and a note says "
            "so.");
}

void add_inspect(Cli& cli) {
    auto options = std::make_shared<InspectOptions>();
    Command& command = cli.command("inspect", "Say what a checkpoint holds and how it is split");
    command.positional("CKPT", &options->checkpoint, "Checkpoint: a folder or a file").required().file();
    command.flag("--tensors", &options->tensors, "List every tensor");
    command.option("--where", &options->where, "TENSOR", "Say which file and offset holds which part of TENSOR")
        .details("The name may be stored in the checkpoint, or be the family's own name of the tensor.");
    add_read_options(command, *options);
    command.common_options();
    command.example("tpx inspect iter_0001000 --tensors", "format, layout and tensors of a checkpoint");
    command.run([options](Output& out) { run_inspect(*options, out); });
}

void add_plan(Cli& cli) {
    auto options = std::make_shared<PlanOptions>();
    Command& command = cli.command("plan", "Say what a change of layout moves, at least, and prove it");
    command.positional("CKPT", &options->checkpoint, "Checkpoint: a folder or a file").required().file();
    add_target_options(command, *options, "--check");
    command.option("--hosts", &options->hosts, "HOSTS", "TOML file of hosts, or NxG: N hosts of G devices")
        .file()
        .details("Moves inside a host are free; the plan counts and bounds what crosses from one host to another.");
    command.flag("--list", &options->list, "List the moves, one a line");
    command.option("-o,--output", &options->output, "FILE", "Write the plan to FILE")
        .file()
        .details("The file is HDF5, as tpx-plan(5) describes it.");
    command.option("--check", &options->check, "FILE", "Check the plan in FILE against the checkpoint")
        .file()
        .details(
            "Coverage, bytes moved and bounds are checked by code that shares nothing with the planner. "
            "The exit status is 3 if the plan does not hold.");
    command.exclusive({"--list", "--json", "--output"});
    add_read_options(command, *options);
    command.common_options();
    command.example("tpx plan ckpt --to tp=8,pp=2 --hosts 4x8", "what must cross between 4 hosts of 8 GPUs");
    command.run([options](Output& out) { run_plan(*options, out); });
}

void add_reshard(Cli& cli) {
    auto options = std::make_shared<ReshardOptions>();
    Command& command = cli.command("reshard", "Write a checkpoint in another layout, format or dialect");
    command.positional("CKPT", &options->checkpoint, "Checkpoint to read").required().file();
    command.positional("OUT", &options->output, "Folder to create").required().file();
    add_target_options(command, *options, "--plan");
    command.option("--plan", &options->plan, "FILE", "Carry out the plan in FILE, move by move")
        .file()
        .details(
            "tpx plan --output wrote it, and says there which layout and format to reach; see tpx-plan(5). Its moves "
            "are certified first. It is refused, with exit status 3, when CKPT is not the checkpoint that it was made "
            "for, or when this tpx would lay out the output in another way.");
    command.option("--dtype", &options->dtype, "DTYPE", "Element type of weights, such as bf16")
        .details(
            "One of f64, f32, f16 and bf16, or as PyTorch calls them. Values are rounded to the nearest, ties to "
            "even.");
    command.option("--memory", &options->memory, "SIZE", "Memory for buffers in each process, such as 4GiB")
        .details("The default is 512MiB.");
    command.option("--shard-size", &options->shard_size, "SIZE", "Largest safetensors file to write")
        .details("A tensor is never split for it. The default is 5GB.");
    command.flag("--dry-run", &options->dry_run, "Say what would be written, and write nothing");
    command.flag("--force", &options->force, "Replace OUT if it exists");
    command.flag("--verify", &options->verify, "Check CKPT, read OUT back and compare the digests")
        .details(
            "CKPT is read once more beforehand, to check the CRC-32s that PyTorch and Megatron keep of their tensors.");
    command.flag("--allow-missing", &options->allow_missing, "Fill what the source lacks with zeros")
        .details("Without it, a source with holes is refused and the holes are named.");
    for (const char* decided : {"--to", "--format", "--dialect", "--dtype", "--shard-size", "--allow-missing"})
        command.exclusive({"--plan", decided});
    add_read_options(command, *options);
    command.common_options();
    command.example("mpirun -n 4 tpx reshard ckpt out --to tp=2,pp=2 --format dcp", "by 4 processes");
    command.run([options](Output& out) { run_reshard(*options, out); });
}

void add_verify(Cli& cli) {
    auto options = std::make_shared<VerifyOptions>();
    Command& command = cli.command("verify", "Check a checkpoint, or whether two hold the same state");
    command.positional("A", &options->first, "Checkpoint to check").required().file();
    command.positional("B", &options->second, "Checkpoint to compare it with, in any layout").file();
    command.flag("--write", &options->write, "Keep the digests beside A, in tpx.digests.json")
        .details("A later verify of A compares with them.");
    command.flag("--dtype", &options->dtype, "Compare values across element types")
        .details("B is compared with A as a conversion to the element type of B would have left it.");
    command.flag("--tensors", &options->tensors, "List every tensor with its digest");
    add_read_options(command, *options);
    command.common_options();
    command.example("tpx verify ckpt out", "exit status 3 if the two differ");
    command.run([options](Output& out) { run_verify(*options, out); });
}

void add_not_built(Cli& cli, std::string_view name, std::string_view summary) {
    Command& command = cli.command(name, summary);
    command.not_built();
    command.common_options();
}

}  // namespace

void add_commands(Cli& cli) {
    add_inspect(cli);
    add_plan(cli);
    add_reshard(cli);
    add_verify(cli);
    add_profile(cli);
    add_not_built(cli, "migrate", "Move a job's state between node-local stores");
    add_not_built(cli, "simulate", "Replay a trace of jobs under a scheduling policy");
}

}  // namespace tpx::cli
