// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/shared_options.hpp"
#include "cmd/inspect/inspect.hpp"
#include "cmd/inspect/inspect_store.hpp"
#include "lib/core/error.hpp"

#include <memory>

namespace tpx::cli {

void add_inspect(Cli& cli) {
    auto options = std::make_shared<InspectOptions>();
    auto store = std::make_shared<InspectStoreOptions>();
    Command& command = cli.command("inspect", "Show what a checkpoint contains and how it is split");
    command.purpose(
        "Prints the format, model family, parallel layout, iteration, dtypes and sizes of a checkpoint, and which "
        "parts of which tensors are missing or stored more than once. Reads metadata only, not the tensors.");
    command.positional("CKPT", &options->checkpoint, "Checkpoint: a folder, a file or hold:NAME")
        .required({"--store"})
        .file();
    command.group("Store options");
    command.option("--store", &store->store, "PATTERN", "Show which state a node-local store has, instead of CKPT")
        .details(
            "A store that tpx migrate --store manages. With --hosts, PATTERN contains {host}, and one process is "
            "started on each host, such as with mpirun. The exit status is 3 unless all hosts of the newest state "
            "have all its files; see EXIT STATUS in tpx-inspect(1).");
    command.option("--hosts", &store->hosts, "HOSTS", "Hosts of the stores: a file, NxG, or slurm").file();
    command.flag("--emulate", &store->emulate, "Processes act for the hosts in turn, wherever they run");
    command.group("Output options");
    command.flag("--tensors", &options->tensors, "List every tensor");
    command.option("--where", &options->where, "TENSOR", "Show file and offset of every part of TENSOR")
        .details("TENSOR is a name stored in the checkpoint, or a canonical name of the model family.");
    command.flag("--state", &options->state, "Show non-tensor values, such as args, schedulers and RNG states")
        .details("Prints the values as an indented tree. Long strings and lists are abbreviated, except with --json.");
    command.option("--html", &options->html, "FILE", "Write an HTML page to FILE")
        .file()
        .details(
            "The page shows which ranks or files store which parts of each tensor, replicas, and missing parts. It "
            "needs no other file and no network.");
    command.exclusive({"--state", "--where"});
    for (const char* other : {"--state", "--where"}) command.exclusive({"--html", other});
    command.exclusive({"--state", "--tensors"});
    for (const char* other : {"CKPT", "--tensors", "--where", "--state", "--html"})
        command.exclusive({"--store", other});
    add_read_options(command, *options);
    command.common_options();
    command.example("tpx inspect iter_0001000", "summary of a Megatron checkpoint");
    command.example("tpx inspect iter_0001000 --tensors", "every tensor with dtype, shape and role");
    command.example("tpx inspect iter_0001000 --html map.html", "a page that shows what each rank stores");
    command.example("tpx inspect iter_0001000 --state --json", "arguments, RNG states and schedulers as JSON");
    command.run([options, store](Output& out) {
        if (store->store.empty() && !store->hosts.empty()) throw Error{Exit::usage, "--hosts: requires --store"};
        store->store.empty() ? run_inspect(*options, out) : inspect_store(*store, out);
    });
}

}  // namespace tpx::cli
