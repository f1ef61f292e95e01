// SPDX-License-Identifier: Apache-2.0
#include "cmd/commands.hpp"

#include "cmd/profile.hpp"
#include "cmd/simulate.hpp"

#include <memory>

namespace tpx::cli {
namespace {

void add_read_options(Command& command, ReadOptions& options) {
    command.option("--config", &options.config, "FILE", "Configuration that the checkpoint lacks")
        .file()
        .details(
            "The file is a model's config.json, or TOML with the same keys. It is needed where a checkpoint stores no "
            "configuration, as PyTorch DCP does: head counts cannot be read off the shapes. For checkpoints of Keras "
            "it is "
            "the model's configuration, or another file of the same model, as tpx-hdf5(5) says.");
    command.option("--set", &options.settings, "KEY=VALUE", "Set one key of the configuration")
        .rare()
        .details(
            "For what no file tells, such as make_vocab_size_divisible_by=64, to which Megatron pads the vocabulary. "
            "May be given more than once.");
    command.option("--rules", &options.rules, "FILE", "Add or override rules of model families")
        .rare()
        .file()
        .details(
            "The notation is that of tpx-rules(5). A family in FILE replaces the built-in one of the same name. May be "
            "given more than once.");
}

void add_target_options(Command& command, TargetOptions& options, std::vector<std::string> unless) {
    command.option("--to", &options.to, "LAYOUT", "Layout to reach, such as tp=4,pp=2")
        .required(std::move(unless))
        .layout()
        .details("A layout as tpx-layout(5) describes it, or the name of a TOML file that holds one.");
    command.option("--format", &options.format, "F", "Format to write, such as torch_dist")
        .choices({"safetensors", "dcp", "torch_dist", "megatron", "deepspeed", "universal", "torch", "torch-legacy",
                  "hdf5", "keras", "keras-legacy"})
        .details("The format of the source is the default.");
    command.option("--dialect", &options.dialect, "D", "Tensor names to write")
        .rare()
        .choices({"hf", "titan", "mcore", "keep"})
        .details(
            "The names and fusions are those of Hugging Face transformers, of torchtitan, or of Megatron core. The "
            "default "
            "is keep, as the source stores them, when the format stays the same; else hf for safetensors, titan for "
            "dcp and "
            "mcore for torch_dist and megatron. Where the model or its dimensions are not known, names are kept, and a "
            "note says "
            "so.");
}

void add_inspect(Cli& cli) {
    auto options = std::make_shared<InspectOptions>();
    Command& command = cli.command("inspect", "Say what a checkpoint holds and how it is split");
    command.positional("CKPT", &options->checkpoint, "Checkpoint: a folder or a file").required().file();
    command.flag("--tensors", &options->tensors, "List every tensor");
    command.option("--where", &options->where, "TENSOR", "Say which file and offset holds which part of TENSOR")
        .details("The name may be stored in the checkpoint, or be the family's own name of the tensor.");
    command.flag("--state", &options->state, "Show what is no tensor: args, schedulers, RNG states")
        .details(
            "Everything that the checkpoint keeps beside its tensors, as an indented tree. Long texts and lists are "
            "abbreviated, except with --json.");
    command.exclusive({"--state", "--where"});
    command.exclusive({"--state", "--tensors"});
    add_read_options(command, *options);
    command.common_options();
    command.example("tpx inspect iter_0001000 --tensors", "format, layout and tensors of a checkpoint");
    command.run([options](Output& out) { run_inspect(*options, out); });
}

void add_plan_subject(Command& command, PlanOptions& options) {
    command.positional("CKPT", &options.checkpoint, "Checkpoint: a folder or a file")
        .required({"--model", "--stores", "--check"})
        .file();
    command.option("--model", &options.model, "MODEL", "Plan for a model, without a checkpoint")
        .file()
        .details(
            "A config.json, a TOML file with the same keys, or the name of a model that tpx knows, such as llama3-70b; "
            "see tpx-model(5).");
    command.option("--roles", &options.roles, "R", "What is kept of each parameter of MODEL")
        .rare()
        .details(
            "Either train, which is the default: bf16 weights, and a master copy and two moments in f32, 14 bytes a "
            "parameter; or weights; or a list such as weight:bf16,exp_avg:f32.");
    command.option("--from", &options.from, "LAYOUT", "Layout to leave; known of a checkpoint").layout();
}

void add_plan_hosts(Command& command, PlanOptions& options) {
    command.option("--hosts", &options.hosts, "HOSTS", "File of hosts, NxG (N hosts of G devices) or slurm")
        .file()
        .details("The word slurm takes the hosts of the Slurm job that tpx runs in.");
    command.option("--hardware", &options.hardware, "FILE", "Rates of hosts, as tpx profile hardware writes them")
        .rare()
        .file()
        .details(
            "For hosts that have none in HOSTS: those of the host of the same name, else of the first one in FILE. "
            "Without --hosts, the hosts are those of FILE.");
    command.option("--ranks-on", &options.ranks_on, "FILE", "Where the old ranks are, a rank or a range a line")
        .rare()
        .file()
        .details(
            "Lines such as '0-7 n0', a rankfile of Open MPI, or a SLURM_HOSTFILE. Without it, the old ranks are taken "
            "to fill the hosts in order, spare hosts left out.");
    command.option("--stores", &options.stores, "PATTERN", "Each host's own store, as in /local/{host}/ckpt")
        .rare()
        .details(
            "What a host holds are the files of the checkpoint that its store has; {host} stands for its name. Without "
            "CKPT, the stores together are the checkpoint.");
    command.option("--lost", &options.lost, "NAMES", "Hosts that are gone, as in n3,n[7-9]").rare();
    command.option("--spare", &options.spare, "NAMES", "Hosts that take ranks only if the others are too few").rare();
    command.flag("--pin", &options.pin, "Keep the order of ranks and hosts").rare();
    command.option("--state-in", &options.state, "S", "Where the state lies")
        .rare()
        .choices({"memory", "stores", "shared"})
        .details(
            "In the memory of the old ranks, the default for --model; in stores of the hosts; or on storage that all "
            "hosts share, the default for a checkpoint. It decides what the predicted time counts.");
}

void add_plan_results(Command& command, PlanOptions& options) {
    command.option("-o,--output", &options.output, "FILE", "Write the plan to FILE")
        .file()
        .details("The file is HDF5, as tpx-plan(5) describes it.");
    command.option("--report", &options.report, "FILE", "Write a page for browsers to FILE").file();
    command.option("--rankfile", &options.rankfile, "FILE", "Write the placement for mpirun --rankfile").rare().file();
    command.option("--hostfile", &options.hostfile, "FILE", "Write the placement for mpirun --hostfile").rare().file();
    command.option("--slurm-hostfile", &options.slurm_hostfile, "FILE", "Write the placement for SLURM_HOSTFILE")
        .rare()
        .file()
        .details("For srun --distribution=arbitrary.");
    command.flag("--list", &options.list, "List the moves, one a line");
    command.flag("--pareto", &options.pareto, "With --to auto: only what none beats in bytes and step time")
        .rare()
        .details(
            "No other layout both moves less between hosts and trains faster, by the step times that the model of "
            "tpx-throughput(5) predicts.");
    command.option("--devices", &options.devices, "N", "With --to auto: how many ranks; all devices by default").rare();
    command
        .option("--throughput", &options.throughput, "FILE",
                "With --to auto: a fitted model, to print the fastest first")
        .rare()
        .file()
        .details(
            "As tpx profile fit writes it. Without it, step times are predicted with parameters that no run has "
            "confirmed, and layouts are printed by the bytes they move.");
    command.option("--batch", &options.batch, "N", "With --to auto: samples of a step; 512 by default").rare();
    command.option("--sequence", &options.sequence, "N", "With --to auto: tokens of a sample; 4096 by default").rare();
    command.option("--check", &options.check, "FILE", "Check the plan in FILE")
        .file()
        .details(
            "Everything that tpx-plan(5) says is proven is proven anew, by code that shares nothing with the planner, "
            "for a sample of the ranks. With CKPT, the plan must be for this checkpoint. The exit status is 3 if the "
            "plan does not hold.");
    command.flag("--full", &options.full, "With --check: check every rank, not a sample").rare();
}

void add_plan(Cli& cli) {
    auto options = std::make_shared<PlanOptions>();
    Command& command = cli.command("plan", "Say what a change of layout moves, at least, and prove it");
    add_plan_subject(command, *options);
    add_target_options(command, *options, {"--check"});
    add_plan_hosts(command, *options);
    add_plan_results(command, *options);
    command.exclusive({"--list", "--json"});
    add_read_options(command, *options);
    command.common_options();
    command.example("tpx plan ckpt --to tp=8,pp=2 --hosts 4x8", "what must cross between 4 hosts of 8 GPUs");
    command.run([options](Output& out) { run_plan(*options, out); });
}

void add_reshard(Cli& cli) {
    auto options = std::make_shared<ReshardOptions>();
    Command& command = cli.command("reshard", "Write a checkpoint in another layout, format or dialect");
    command.positional("CKPT", &options->checkpoint, "Checkpoint to read").required().file();
    command.positional("OUT", &options->output, "Folder to create; with --format torch, a file").required().file();
    add_target_options(command, *options, {"--plan"});
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
    command.option("--drop", &options->drop, "WHAT", "Leave out what OUT shall not have")
        .choices({"optimizer"})
        .rare()
        .details(
            "optimizer: only weights are written. A parameter of which there is only a master weight, as under ZeRO 3, "
            "has that for its weight.");
    command.flag("--masters", &options->masters, "Write master weights in the place of weights")
        .rare()
        .details("Together with --drop optimizer; --dtype rounds them.");
    command.option("--memory", &options->memory, "SIZE", "Memory of each process, such as 4GiB")
        .details(
            "Buffers get what the process has not taken when reading begins, at least 16MiB; without this, 512MiB.");
    command.option("--shard-size", &options->shard_size, "SIZE", "Largest safetensors file to write")
        .rare()
        .details("A tensor is never split for it. The default is 5GB.");
    command.option("--hardware", &options->hardware, "FILE", "Rates of hosts, as tpx profile hardware writes them")
        .rare()
        .file()
        .details(
            "Says how long it would have taken at least: hosts have the rates of the host of the same name in FILE, "
            "others those of the first.");
    command.flag("--dry-run", &options->dry_run, "Say what would be written, and write nothing");
    command.flag("--force", &options->force, "Replace OUT if it exists");
    command.flag("--verify", &options->verify, "Check CKPT, read OUT back and compare the digests")
        .details(
            "CKPT is read once more beforehand, to check the CRC-32s that PyTorch and Megatron keep of their tensors.");
    command.flag("--allow-missing", &options->allow_missing, "Fill what the source lacks with zeros")
        .rare()
        .details("Without it, a source with holes is refused and the holes are named.");
    for (const char* decided :
         {"--to", "--format", "--dialect", "--dtype", "--shard-size", "--allow-missing", "--drop", "--masters"})
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
    command.flag("--masters", &options->masters, "Check that the optimizer is that of the weights")
        .details(
            "Master weights, rounded to the element type of the weights, must equal them; moments must be there for "
            "the same parameters, with their shapes, finite, and squares not negative; all must be at one step. An "
            "optimizer of another model, or one whose parameters were mixed up, is found so. Tensors that do not fit "
            "are named, with the first element. Digests are not taken, unless B is given.");
    command.exclusive({"--masters", "--write"});
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
    add_simulate(cli);
}

}  // namespace tpx::cli
