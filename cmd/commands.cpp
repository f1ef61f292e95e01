// SPDX-License-Identifier: Apache-2.0
#include "cmd/commands.hpp"

#include "cmd/ignored_roles.hpp"
#include "cmd/profile.hpp"
#include "cmd/simulate.hpp"

#include <memory>

namespace tpx::cli {
namespace {

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

void add_target_options(Command& command, TargetOptions& options, std::vector<std::string> unless) {
    command.group("Target options");
    command.option("--to", &options.to, "LAYOUT", "Target layout, such as tp=4,pp=2")
        .required(std::move(unless))
        .layout()
        .details("A layout as described in tpx-layout(5), or the path of a TOML file that contains one.");
    command.option("--format", &options.format, "F", "Target format")
        .choices({"safetensors", "dcp", "torch_dist", "megatron", "deepspeed", "universal", "torch", "torch-legacy",
                  "hdf5", "keras", "keras-legacy"})
        .standard("the format of CKPT");
    command.option("--dialect", &options.dialect, "D", "Tensor names and fused tensors to write, as in")
        .choices({"hf", "titan", "mcore", "keep"})
        .standard("the target format's framework")
        .details(
            "hf: Hugging Face transformers; titan: torchtitan; mcore: Megatron-core; keep: the names in CKPT. If the "
            "format does not change, the default is keep; otherwise it is hf for safetensors, titan for dcp, and mcore "
            "for torch_dist and megatron.");
}

void add_inspect(Cli& cli) {
    auto options = std::make_shared<InspectOptions>();
    Command& command = cli.command("inspect", "Show what a checkpoint contains and how it is split");
    command.purpose(
        "Prints the format, model family, parallel layout, iteration, dtypes and sizes of a checkpoint, and which "
        "parts of which tensors are missing or stored more than once. Reads metadata only, not the tensors.");
    command.positional("CKPT", &options->checkpoint, "Checkpoint: a folder or a file").required().file();
    command.group("Output options");
    command.flag("--tensors", &options->tensors, "List every tensor");
    command.option("--where", &options->where, "TENSOR", "Show file and offset of every part of TENSOR")
        .details("TENSOR is a name stored in the checkpoint, or a canonical name of the model family.");
    command.flag("--state", &options->state, "Show non-tensor values, such as args, schedulers and RNG states")
        .details("Prints the values as an indented tree. Long strings and lists are abbreviated, except with --json.");
    command.exclusive({"--state", "--where"});
    command.exclusive({"--state", "--tensors"});
    add_read_options(command, *options);
    command.common_options();
    command.example("tpx inspect iter_0001000", "summary of a Megatron checkpoint");
    command.example("tpx inspect iter_0001000 --tensors", "every tensor with dtype, shape and role");
    command.example("tpx inspect iter_0001000 --state --json", "arguments, RNG states and schedulers as JSON");
    command.run([options](Output& out) { run_inspect(*options, out); });
}

void add_plan_subject(Command& command, PlanOptions& options) {
    command.positional("CKPT", &options.checkpoint, "Checkpoint: a folder or a file")
        .required({"--model", "--stores", "--check"})
        .file();
    command.group("Model options");
    command.option("--model", &options.model, "MODEL", "Plan for a model, without a checkpoint")
        .file()
        .details(
            "A config.json, a TOML file with the same keys, or the name of a built-in model, such as llama3-70b; see "
            "tpx-model(5).");
    command
        .option("--roles", &options.roles, "R",
                "State per parameter: train (bf16 weight, f32 master weight and two f32 moments), weights, or a list")
        .standard("train")
        .details(
            "train takes 14 bytes per parameter; weights is the bf16 weight only. A list names roles and dtypes, such "
            "as weight:bf16,exp_avg:f32.");
    command.option("--from", &options.from, "LAYOUT", "Current layout; required with --model").layout();
}

void add_plan_hosts(Command& command, PlanOptions& options) {
    command.group("Cluster options");
    command.option("--hosts", &options.hosts, "HOSTS", "Hosts: a file, NxG (N hosts with G devices), or slurm")
        .file()
        .details("slurm: the hosts of the Slurm job in which tpx runs.");
    command
        .option("--hardware", &options.hardware, "FILE",
                "Transfer rates, for the time estimate (written by tpx profile hardware)")
        .file()
        .details(
            "A host without rates in HOSTS gets the rates of the host with the same name in FILE, otherwise those of "
            "the first host in FILE. Without --hosts, FILE also defines the hosts.");
    command.option("--ranks-on", &options.ranks_on, "FILE", "Hosts of the current ranks, one rank or range per line")
        .file()
        .details(
            "FILE contains lines such as '0-7 n0', or was written by --rank-map, or is an Open MPI rankfile or a "
            "SLURM_HOSTFILE. By default, the current ranks fill the hosts in order, except for spare hosts.");
    command
        .option("--stores", &options.stores, "PATTERN",
                "Path of each host's local checkpoint; {host} is replaced, as in /local/{host}/ckpt")
        .details(
            "A host holds the files that its store, the folder PATTERN, contains. Without CKPT, the checkpoint is the "
            "union of the stores. Each store must contain all metadata files, and a file in several places must be "
            "identical everywhere: files up to 16 MiB are compared completely, larger files by size and 16 samples of "
            "64 KiB. If the checkpoint does not record its iteration, each store must contain the tpx.digests.json of "
            "the whole checkpoint (see tpx verify --write), and all files are checked against it.");
    command.option("--nic", &options.nic, "RATE", "NIC rate of each host in each direction, such as 25GB/s")
        .details("Overrides HOSTS and --hardware for all hosts, as do --disk and --gpu-memory.");
    command.option("--disk", &options.disk, "RATE", "Disk rate of each host: READ, or READ,WRITE")
        .details("For example 5GB/s, or 5GB/s,2GB/s.");
    command.option("--gpu-memory", &options.gpu_memory, "SIZE", "Memory of each device, such as 80GB");
    command.option("--lost", &options.lost, "NAMES", "Hosts that failed, such as n3,n[7-9]");
    command.option("--spare", &options.spare, "NAMES", "Empty hosts to use only if the others are too few");
    command.flag("--pin", &options.pin, "Place the new ranks on hosts in order; do not optimize");
    command.flag("--survive", &options.survive, "Report which hosts can be lost together after the change")
        .details(
            "The report contains the hosts that are the only ones to hold some state, and the bytes of one more copy.");
    command.flag("--derive-weights", &options.derive_weights, "With --model: do not move weights, derive them")
        .details(
            "Each rank rounds its weights from the fp32 master weights, which it gets anyway. Rejected if ZeRO splits "
            "the master weights further than the weights.");
    command.option("--state-in", &options.state, "S", "Where the current state is stored")
        .choices({"memory", "stores", "shared"})
        .standard("shared for CKPT, memory for --model")
        .details(
            "memory: in the memory of the current ranks; stores: in node-local stores; shared: on storage that all "
            "hosts share. The time estimate depends on it.");
    command.option("--staging", &options.window, "SIZE", "Buffer memory of each host for bytes in transit")
        .standard("1GiB")
        .details(
            "The limit covers what a host receives and sends in a round of transfers, plus what it has received and "
            "forwards later. A larger window allows larger transfers.");
}

void add_plan_auto(Command& command, PlanOptions& options) {
    command.group("Options for --to auto");
    command.option("--devices", &options.devices, "N", "Number of new ranks").standard("all devices");
    command
        .flag("--pareto", &options.pareto, "List only layouts not beaten by another in both bytes moved and step time")
        .details("Step times are predicted by the model described in tpx-throughput(5).");
    command
        .option("--throughput", &options.throughput, "FILE",
                "Throughput model (written by tpx profile fit); sorts layouts by predicted step time")
        .file()
        .details(
            "See tpx-throughput(5). Without it, step times are rough estimates, from parameters that were not fitted "
            "to any measurement, and layouts are sorted by bytes moved.");
    command.option("--batch", &options.batch, "N", "Samples per step").standard("512");
    command.option("--sequence", &options.sequence, "N", "Tokens per sample").standard("4096");
}

void add_plan_results(Command& command, PlanOptions& options) {
    command.group("Output options");
    command.option("-o,--output", &options.output, "FILE", "Write the plan to FILE")
        .file()
        .details("The file is HDF5, as described in tpx-plan(5).");
    command.option("--report", &options.report, "FILE", "Write an HTML page to FILE").file();
    command
        .option("--launch", &options.launch, "FILE",
                "Write a script that starts the new ranks with torchrun, srun or mpirun")
        .file()
        .details(
            "sh FILE torchrun|srun|mpirun [OPTIONS] -- PROGRAM starts each rank on its host and device. It sets "
            "CUDA_VISIBLE_DEVICES, LOCAL_RANK and the other variables of torchrun.");
    command
        .option("--rank-map", &options.rank_map, "FILE",
                "Write the host and device of each new rank, for --ranks-on of the next change")
        .file();
    command.flag("--list", &options.list,
                 "List the parts of tensors to copy, one per line, with ranks, and files or hosts, at both ends");
    command.group("Checking a plan");
    command.option("--check", &options.check, "FILE", "Check the plan in FILE instead of making one")
        .file()
        .details(
            "Proves again everything that tpx-plan(5) lists, with code that is independent of the planner. Other "
            "options given with it (CKPT or --model, --from, --to, hosts and their rates, --ranks-on, --state-in, "
            "--pin, --window) must match the plan. The exit status is 3 if they do not, or if the plan is wrong.");
    command.option("--check-ranks", &options.sample, "N", "With --check: check the needs of N ranks only")
        .standard("all ranks");
    command.flag("--full", &options.full, "With --check: check the needs of all ranks (the default)");
    command.exclusive({"--check-ranks", "--full"});
}

void add_plan(Cli& cli) {
    auto options = std::make_shared<PlanOptions>();
    Command& command = cli.command("plan", "Compute the fewest bytes that a layout change must move");
    command.purpose(
        "Assigns the new ranks to hosts to minimize traffic between hosts, prints how many bytes move and a time "
        "estimate, and proves that every element has exactly one source. Plans for a checkpoint, or for a model given "
        "by its dimensions (--model). Moves nothing.");
    add_plan_subject(command, *options);
    add_target_options(command, *options, {"--check"});
    add_plan_hosts(command, *options);
    add_plan_auto(command, *options);
    add_plan_results(command, *options);
    add_read_options(command, *options);
    command.common_options();
    command.example("tpx plan ckpt --to tp=2 --hosts 2x4", "bytes sent between 2 hosts with 4 GPUs each");
    command.example("tpx plan --model llama3-70b --from tp=8,pp=4,dp=2 --to auto --hosts 8x8 --devices 48",
                    "all layouts for 48 of 64 GPUs, sorted by bytes moved");
    command.example("tpx plan ckpt --to tp=4 -o change.plan", "write a plan for tpx reshard --plan");
    command.run([options](Output& out) { run_plan(*options, out); });
}

void add_reshard_output(Command& command, ReshardOptions& options) {
    command.option("--plan", &options.plan, "FILE", "Execute the plan in FILE instead of making one")
        .file()
        .details(
            "FILE is written by tpx plan --output and contains the target layout and format; see tpx-plan(5). The plan "
            "is checked first. If it was made for another checkpoint than CKPT, or if this version of tpx would "
            "arrange the output differently, the plan is rejected with exit status 3.");
    command.option("--dtype", &options.dtype, "DTYPE", "Convert weights to DTYPE: f64, f32, f16 or bf16")
        .standard("as stored")
        .details(
            "PyTorch's names, such as bfloat16, are accepted. Values are rounded to nearest, ties to even; a finite "
            "value that would become infinite is an error.");
    command.option("--drop", &options.drop, "WHAT", "State to omit")
        .choices({"optimizer"})
        .details(
            "optimizer: write weights only. If a parameter is stored only as a master weight, as with ZeRO 3, the "
            "weight is rounded from the master weight.");
    command.flag("--masters", &options.masters, "With --drop optimizer: write the fp32 master weights as weights")
        .details("--dtype converts them.");
    command.option("--shard-size", &options.shard_size, "SIZE", "Maximum size of each safetensors file")
        .standard("5GB")
        .details("A tensor larger than SIZE is written to a separate file; tensors are never split.");
    command.flag("--allow-missing", &options.allow_missing, "Fill missing parts of CKPT with zeros")
        .details("By default, a checkpoint with missing parts is rejected and the parts are listed.");
    command.flag("--force", &options.force, "Replace OUT if it is a checkpoint or an empty folder");
}

void add_reshard(Cli& cli) {
    auto options = std::make_shared<ReshardOptions>();
    Command& command = cli.command("reshard", "Convert a checkpoint to another layout, format or naming");
    command.purpose(
        "Reads CKPT in any layout and format and writes the same training state to OUT. Under mpirun or srun the "
        "processes share the work; any number of processes works with any layout. OUT is created under a temporary "
        "name and renamed when it is complete and on disk.");
    command.positional("CKPT", &options->checkpoint, "Checkpoint to read: a folder or a file").required().file();
    command.positional("OUT", &options->output, "Folder to create; a file with --format torch or torch-legacy")
        .required()
        .file();
    add_target_options(command, *options, {"--plan"});
    add_reshard_output(command, *options);
    command.group("Execution options");
    command.flag("--dry-run", &options->dry_run, "Show what would be written, and write nothing");
    command.flag("--verify", &options->verify, "Check CKPT, then compare OUT, read back from disk, with CKPT")
        .details(
            "Before the conversion, CKPT is read once more to check the CRC-32 that PyTorch and Megatron store per "
            "tensor. Afterwards, OUT is synchronized, dropped from the page cache and read back. Its tensors must have "
            "the digests of the tensors of CKPT, converted if the dtype changes; its headers, configuration and copied "
            "files must contain the bytes that were written; its non-tensor values, such as arguments, steps and RNG "
            "states, must equal those of CKPT as far as OUT stores them. The output, or the key verified with --json, "
            "reports what was verified, and whether OUT is on a file system in memory, such as tmpfs.");
    command.option("--memory", &options->memory, "SIZE", "Memory limit per process, such as 4GiB")
        .standard("none; buffers use 512MiB")
        .details(
            "With this option, buffers use what remains of SIZE after all other memory of the process, but at least "
            "16MiB.");
    command
        .option("--hardware", &options->hardware, "FILE",
                "Transfer rates (written by tpx profile hardware); prints a lower bound on the time")
        .file()
        .details(
            "Each host has the rates of the host with the same name in FILE, otherwise those of the first host in "
            "FILE.");
    for (const char* decided :
         {"--to", "--format", "--dialect", "--dtype", "--shard-size", "--allow-missing", "--drop", "--masters"})
        command.exclusive({"--plan", decided});
    add_read_options(command, *options);
    command.common_options();
    command.example("tpx reshard hf out --to tp=2,pp=2 --format torch_dist", "Hugging Face to Megatron-core");
    command.example("tpx reshard ckpt out --to tp=1 --format safetensors --drop optimizer",
                    "Megatron-core to Hugging Face, weights only");
    command.example("mpirun -n 4 tpx reshard zero out --to dp=2",
                    "DeepSpeed ZeRO, from any number of ranks to 2, with 4 processes");
    command.run([options](Output& out) { run_reshard(*options, out); });
}

void add_verify(Cli& cli) {
    auto options = std::make_shared<VerifyOptions>();
    Command& command = cli.command("verify", "Check a checkpoint, or compare two in any layout and format");
    command.purpose(
        "With A: reads all data and checks stored checksums, plus tpx.digests.json if present. With A and B: compares "
        "tensors, optimizer settings, step, schedulers, RNG states, arguments and counters, in any layouts and "
        "formats. The exit status is 3 if something differs, is missing on one side or cannot be compared.");
    command.positional("A", &options->first, "Checkpoint to check").required().file();
    command.positional("B", &options->second, "Checkpoint to compare with A").file();
    command.flag("--write", &options->write, "Record digests of A in tpx.digests.json, for later checks")
        .details(
            "The file is written next to the checkpoint's metadata: in A, or in A/iter_NNNNNNN if A is the root folder "
            "of a Megatron run; if A is a file, it is A.tpx.digests.json. Every later tpx verify A checks A against "
            "it.");
    command.flag("--weights-only", &options->weights_only, "Compare weights only");
    command.option("--ignore", &options->ignore, "ROLE,...", "Roles to ignore; see ROLES in the man page")
        .any_of({ignorable_roles.begin(), ignorable_roles.end()})
        .details(
            "Repeatable. A note counts what was ignored. Layouts with different ranks have different RNG states: use "
            "--ignore rng to compare everything else.");
    command.exclusive({"--weights-only", "--ignore"});
    for (const char* alone : {"--weights-only", "--ignore", "--dtype"}) command.exclusive({"--write", alone});
    command.flag("--dtype", &options->dtype, "Compare values even if dtypes differ")
        .details("The values of A are rounded to the dtype of B, as tpx reshard --dtype does.");
    command
        .flag("--masters", &options->masters,
              "Check that master weights round to the weights, and that optimizer state is consistent")
        .details(
            "Master weights rounded to the dtype of the weights must equal the weights; every parameter must have "
            "moments of its shape, all values finite and exp_avg_sq not negative; all steps must be equal. This "
            "detects the optimizer state of another model and state assigned to the wrong parameter. Tensors that do "
            "not match are listed with the first element that differs. Digests are computed only if B is given.");
    command.exclusive({"--masters", "--write"});
    command.flag("--tensors", &options->tensors, "List every tensor with its digest");
    command.option("--memory", &options->memory, "SIZE", "Memory limit per process, such as 4GiB")
        .standard("none; buffers use 512MiB")
        .details(
            "With this option, buffers use what remains of SIZE after all other memory of the process, but at least "
            "16MiB.");
    add_read_options(command, *options);
    command.common_options();
    command.example("tpx verify ckpt", "is the checkpoint complete and undamaged?");
    command.example("tpx verify ckpt iter_0001000", "do both contain the same state?");
    command.example("tpx verify ckpt --write", "record digests; later runs of tpx verify ckpt check them");
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
    add_simulate(cli);
    add_not_built(cli, "migrate", "Move training state between node-local stores");
}

}  // namespace tpx::cli
