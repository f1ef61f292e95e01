// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/shared_options.hpp"
#include "cmd/plan/plan.hpp"
#include "formats/files/model_file.hpp"
#include "lib/layout/candidates.hpp"

#include <limits>
#include <memory>

namespace tpx::cli {
namespace {

void add_plan_subject(Command& command, PlanOptions& options) {
    command.positional("CKPT", &options.checkpoint, "Checkpoint: a folder, a file or hold:NAME")
        .required({"--model", "--stores", "--check"})
        .file();
    command.group("Model options");
    command.option("--model", &options.model, "MODEL", "Plan for a model, without a checkpoint")
        .suggestions(formats::builtin_model_names())
        .file()
        .details(
            "A config.json, a TOML file with the same keys, or the name of a built-in model, such as llama3-70b; see "
            "tpx-model(5).");
    command
        .option("--roles", &options.roles, "R",
                "State per parameter: train (bf16 weight, f32 master weight and two f32 moments), weights, or a list")
        .suggestions({"train", "weights"})
        .default_value("train")
        .details(
            "train takes 14 bytes per parameter; weights is the bf16 weight only. A list names roles and dtypes, such "
            "as weight:bf16,exp_avg:f32.");
    command.option("--from", &options.from, "LAYOUT", "Current layout; required with --model").layout();
    command.option("--via", &options.via, "LAYOUT", "With --model: change to LAYOUT in between; repeatable")
        .layout()
        .details(
            "Plans the changes from --from to the first LAYOUT, from there to the next, and so on to --to, on the same "
            "hosts. Each change starts from the placement of the previous one. Use it if old and new state "
            "do not fit into device memory together.");
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
            "64 KiB. If the checkpoint records neither an iteration (Megatron) nor a save ID (PyTorch's .metadata), "
            "each store must contain the tpx.digests.json of the whole checkpoint (see tpx verify --write), and all "
            "files are checked against it.");
}

void add_plan_rates(Command& command, PlanOptions& options) {
    command.option("--nic", &options.nic, "RATE", "NIC rate of each host in each direction, such as 25GB/s")
        .details("Overrides HOSTS and --hardware for all hosts, as do --disk and --gpu-memory.");
    command.option("--disk", &options.disk, "RATE", "Disk rate of each host: READ, or READ,WRITE")
        .details("For example 5GB/s, or 5GB/s,2GB/s.");
    command.option("--gpu-memory", &options.gpu_memory, "SIZE", "Memory of each device, such as 80GB");
}

void add_plan_placement(Command& command, PlanOptions& options) {
    command.option("--lost", &options.lost, "NAMES", "Hosts or devices that failed, such as n3,n[7-9] or n3:2")
        .details(
            "n3:2 is device 2 of host n3; devices count from 0. Failed devices hold no state and get no rank; state in "
            "the store of their host remains available.");
    command.option("--spare", &options.spare, "NAMES", "Empty hosts to use only if the others are too few");
    command
        .option("--objective", &options.objective, "O",
                "Choose the placement with the fewest bytes, or the fastest one")
        .choices({"bytes", "time"})
        .default_value("bytes")
        .details(
            "bytes: the fewest bytes between hosts, then the shortest predicted time. time: the shortest predicted "
            "time that was found, which is never longer than with bytes; the proof says whether it is the shortest.");
    command.option("--placement", &options.placement, "P", "Place consecutive ranks on each host, or TP groups freely")
        .choices({"blocks", "groups"})
        .default_value("blocks")
        .details(
            "blocks: each host gets consecutive ranks. groups: each TP group can go to any host, which can reduce the "
            "bytes sent; the ranks of a host may then not be consecutive.");
    command.flag("--pin", &options.pin, "Place the new ranks on hosts in order; do not optimize");
    command.flag("--survive", &options.survive, "Report which hosts can be lost together after the change")
        .details("The report lists the hosts that have the only copies of some state, and the bytes of one more copy.");
    command.flag("--derive-weights", &options.derive_weights, "With --model: do not move weights, derive them")
        .details(
            "Each rank rounds its weights from the fp32 master weights, which it gets anyway. Rejected if ZeRO splits "
            "the master weights further than the weights.");
}

void add_plan_state(Command& command, PlanOptions& options) {
    command.option("--state-in", &options.state, "S", "Where the current state is stored")
        .choices({"memory", "stores", "shared"})
        .default_value("memory for --model and hold:NAME, otherwise shared")
        .details(
            "memory: in the memory of the current ranks; stores: in node-local stores; shared: on storage that all "
            "hosts share. The time estimate depends on it.");
    command.option("--iteration", &options.iteration, "N", "Training iteration of the state that hosts hold")
        .range(0, std::numeric_limits<std::int64_t>::max())
        .details(
            "Applies to hosts without an iteration in HOSTS. State of different iterations is never combined: the exit "
            "status is 1 if hosts hold different iterations, or if part of the state is only on shared storage, and of "
            "another iteration.");
    command
        .option("--storage-iteration", &options.storage_iteration, "N",
                "Training iteration of the checkpoint on shared storage")
        .range(0, std::numeric_limits<std::int64_t>::max())
        .default_value("the iteration that CKPT records");
    command.option("--staging", &options.window, "SIZE", "Buffer memory of each host for bytes in transit")
        .default_value("1GiB")
        .details(
            "The limit covers what a host receives and sends in a round of transfers, plus what it has received and "
            "forwards later. A larger window allows larger transfers.");
}

void add_plan_auto(Command& command, PlanOptions& options) {
    command.group("Options for --to auto");
    command.option("--devices", &options.devices, "N", "Number of new ranks").default_value("all devices");
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
    command.option("--top", &options.top, "N", "List the N best layouts").default_value("20");
    add_technique_options(command, options, layout_techniques, "layouts");
    command.option("--batch", &options.batch, "N", "Samples per step").default_value("that of --throughput, or 512");
    command.option("--sequence", &options.sequence, "N", "Tokens per sample").default_value("4096");
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
            "CUDA_VISIBLE_DEVICES, TPX_LAYOUT, LOCAL_RANK and the other variables of torchrun.");
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
            "--pin, --placement, --staging) must match the plan, and what each rank needs must fit into --gpu-memory. "
            "The exit status is 3 if they do not, or if the plan is wrong.");
    command.option("--check-ranks", &options.sample, "N", "With --check: check the needs of N ranks only")
        .default_value("all ranks");
    command.flag("--full", &options.full, "With --check: check the needs of all ranks (the default)");
    command.exclusive({"--check-ranks", "--full"});
    for (const char* single : {"--check", "--report"}) command.exclusive({"--via", single});
    // With --check, no plan is made that could be written, printed or compared.
    for (const char* result : {"--output", "--report", "--launch", "--rank-map", "--list", "--survive", "--devices",
                               "--pareto", "--throughput", "--top", "--without", "--only", "--batch", "--sequence"})
        command.exclusive({"--check", result});
}

}  // namespace

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
    add_plan_rates(command, *options);
    add_plan_placement(command, *options);
    add_plan_state(command, *options);
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

}  // namespace tpx::cli
