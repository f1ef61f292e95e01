// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/shared_options.hpp"
#include "cmd/hold/hold.hpp"

#include <memory>

namespace tpx::cli {
namespace {

void add_state_options(Command& command, HoldOptions& options) {
    command.group("State options");
    command.option("--name", &options.name, "NAME", "Name under which the state is held on this host")
        .required({"--list", "--release"})
        .details("Letters, digits, '.', '_' and '-', at most 64. A user has one keeper per name and host.");
    command.option("--to", &options.to, "LAYOUT", "Layout of the job that will take the state")
        .default_value("the layout of CKPT")
        .layout()
        .details("A layout as described in tpx-layout(5), or the path of a TOML file that contains one.");
    command.option("--ranks", &options.ranks, "RANKS", "Ranks of the layout that run on this host, such as 0-3,8")
        .default_value("all; with one process on each of several hosts, blocks of equal size");
    command.option("--dialect", &options.dialect, "D", "Tensor names and fused tensors to hold")
        .choices({"hf", "titan", "mcore", "keep"})
        .default_value("keep");
    command
        .option("--dtype", &options.dtype, "DTYPE", "Convert weights to DTYPE: f64, f32, f16, bf16 or f8e4m3:unscaled")
        .suggestions({"f64", "f32", "f16", "bf16", "f8e4m3:unscaled", "f8e5m2:unscaled"})
        .default_value("as stored");
    command.option("--drop", &options.drop, "WHAT", "State to omit").choices({"optimizer"});
    command.flag("--masters", &options.masters, "With --drop optimizer: hold the fp32 master weights as weights");
}

void add_keeper_options(Command& command, HoldOptions& options) {
    command.group("Keeper options");
    command.flag("--empty", &options.empty, "Start without state and wait for exports from trainers");
    command.option("--timeout", &options.timeout, "SECONDS", "Seconds until the state is released, or none")
        .default_value("300")
        .details(
            "Reads that are in progress end first. With none, the keeper runs until the state is taken or released.");
    command.option("--device", &options.device, "D", "Memory in which the tensors are held")
        .choices({"auto", "cuda", "host"})
        .default_value("host")
        .details(
            "cuda: GPU memory, from which trainers on this host copy the tensors. auto: GPU memory if there is a GPU "
            "for each rank (or --rank-gpus is given) and the state fits; otherwise host memory, with a note.");
    command
        .option("--rank-gpus", &options.rank_gpus, "GPUS",
                "With --device cuda: CUDA number of each rank's GPU, such as 0,0,1,1")
        .default_value("the K-th held rank uses GPU K")
        .details("One number is the GPU of all ranks. Only with this option do ranks share a GPU.");
    command
        .option("--transport", &options.transport, "T", "How tensors in GPU memory move to the GPUs of the new state")
        .choices({"auto", "nccl", "ipc", "mpi"})
        .default_value("auto")
        .details(
            "With hold:NAME and --device cuda or auto. nccl and mpi: between several hosts, by NCCL from GPU to GPU or "
            "by MPI through pinned host memory. ipc: within one host, from GPU to GPU. If nccl or ipc is impossible, "
            "the command fails before anything moves. auto: the fastest transport that is possible; a note names it.");
    add_hardware_option(command, options.hardware, "Measured rates of links (written by tpx profile hardware)",
                        "With hold:NAME: if several GPUs or hosts hold an element, it is copied over the fastest link, "
                        "and hosts with faster NICs send more. Rates are rounded to steps of 25 % below the fastest "
                        "link; links in one step count as equal. Links are ordered by rate only if all links of their "
                        "kind were measured, and rates between hosts are used only if FILE names all hosts.");
    command
        .option("--patience", &options.patience, "SECONDS",
                "With several hosts: end if a host makes no progress for SECONDS")
        .default_value("60");
    command.flag("--foreground", &options.foreground, "Keep the state in this process instead of a background process");
    command.flag("-n,--dry-run", &options.dry_run, "Check that the state fits into memory; do not read it");
    command.option("-j,--threads", &options.threads, "N", "Threads that read and copy")
        .range(1, max_threads)
        .default_value("2");
    command.flag("--list", &options.list, "List your keepers on this host and the ranks they hold");
    command.option("--release", &options.release, "NAME", "End the keeper NAME, and free what it holds");
}

}  // namespace

void add_hold(Cli& cli) {
    auto options = std::make_shared<HoldOptions>();
    Command& command = cli.command("hold", "Hold training state in memory for a job that restarts");
    command.purpose(
        "Reads CKPT into shared memory, split as the ranks of the new job need it, and leaves it to a background "
        "process, the keeper. Each rank takes its shards without a copy and without the disk; examples/tpx_handover.py "
        "does so in PyTorch, and also exports the state of a running trainer to a keeper. Other commands read what a "
        "keeper holds as hold:NAME. The memory is freed when all ranks have taken their shards, after a timeout, on "
        "request, and whenever the keeper ends.");
    command.positional("CKPT", &options->checkpoint, "Checkpoint to read: a folder, a file or hold:NAME")
        .required({"--empty", "--list", "--release"})
        .file();
    add_state_options(command, *options);
    add_keeper_options(command, *options);
    for (const char* source : {"CKPT", "--empty"})
        for (const char* other : {"--list", "--release"}) command.exclusive({source, other});
    command.exclusive({"--list", "--release"});
    for (const char* request : {"--list", "--release"})
        for (const char* other :
             {"--name", "--to", "--ranks", "--dialect", "--dtype", "--drop", "--masters", "--timeout", "--device",
              "--rank-gpus", "--transport", "--hardware", "--patience", "--foreground", "--dry-run", "--threads"})
            command.exclusive({request, other});
    for (const char* of_state : {"CKPT", "--to", "--ranks", "--dialect", "--dtype", "--drop", "--device", "--rank-gpus",
                                 "--transport", "--hardware", "--patience", "--dry-run"})
        command.exclusive({"--empty", of_state});
    command.exclusive({"--foreground", "--dry-run"});
    add_read_options(command, *options);
    command.common_options();
    command.example("tpx hold dcp --name job --to fsdp=4", "hold the shards of four ranks for a trainer that starts");
    command.example("tpx reshard hold:job out --to fsdp=2", "read what is held, as any checkpoint");
    command.example("mpirun --map-by ppr:1:node tpx hold hold:job --name next --to tp=4",
                    "hold the state of several hosts in another layout");
    command.example("tpx hold --name live --empty --timeout none", "wait for what trainers export");
    command.run([options](Output& out) { run_hold(*options, out); });
}

}  // namespace tpx::cli
