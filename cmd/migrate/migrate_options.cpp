// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/shared_options.hpp"
#include "cmd/migrate/migrate.hpp"
#include "lib/layout/candidates.hpp"

#include <limits>
#include <memory>

namespace tpx::cli {
namespace {

void add_store_options(Command& command, MigrateRequest& options) {
    command.group("Store options");
    command.option("--store", &options.store, "PATTERN", "Path of each host's managed store; {host} is replaced")
        .details("See MANAGED STORES in tpx-migrate(1). Replaces STORES and OUT.");
    command.option("--import", &options.import_from, "CKPT", "Put the checkpoint CKPT into the stores")
        .file()
        .details(
            "CKPT is a checkpoint of any format on shared storage, the path of a folder on each host, with {host}, or "
            "hold:NAME, the state that tpx hold keeps in memory on the hosts. --to and --format default to the layout "
            "and format of CKPT.");
    command.option("--export", &options.export_to, "OUT", "Write the current state to shared storage as OUT")
        .details("OUT becomes a checkpoint as tpx reshard writes it. The stores do not change.");
    command
        .option("--background-rate", &options.background_rate, "RATE",
                "Limit on the rates at which each host reads and writes with --export")
        .at_least(100e3)  // at lower rates, a message of 1 MiB would seem to hang
        .default_value("none")
        .details(
            "Requires --export. Use it to export while the job trains, for example with 500MB/s; the minimum is "
            "100kB/s. Reads and writes are limited separately; the processes of a host share the limit.");
    command.option("--job", &options.job, "NAME", "Name of the job, for --import")
        .default_value("the job in the stores, or a digest of the tensors");
    command.option("--iteration", &options.iteration, "N", "Iteration of CKPT, if it does not record its own")
        .range(0, std::numeric_limits<std::int64_t>::max());
    command.option("--replicas", &options.replicas, "N", "Number of hosts that keep each file")
        .default_value("as in the stores, or 1")
        .details(
            "With 2, the state survives the loss of any one host. All files of a host have their copies on the same "
            "other host, in another switch group if possible, so that the state also survives the loss of most pairs "
            "of hosts.");
    command.option("--fallback", &options.fallback, "CKPT", "Checkpoint to use if the stores lost data")
        .file()
        .details(
            "If no host has an intact copy of some file, all state is read from CKPT, which must be of the same "
            "iteration.");
    command.option("--rejoin", &options.rejoin, "HOSTS", "Treat the stores of these hosts as empty")
        .details(
            "For a host that comes back with an outdated store. A store that has the newest state of the other hosts "
            "is used.");
    command.option("--decision-dir", &options.decision_dir, "DIR", "Also record the decision to switch in DIR")
        .file()
        .details("A folder on shared storage. Without it, the decision is recorded on a majority of the hosts.");
    command.flag("--prune", &options.prune, "Remove states that are not current, and unfinished ones");
}

void add_cluster_options(Command& command, MigrateRequest& options) {
    PlanOptions& plan = options.plan;
    command.group("Cluster options");
    command.option("--hosts", &plan.hosts, "HOSTS", "Hosts: a file, NxG (N hosts with G devices), or slurm")
        .required()
        .file()
        .details("slurm: the hosts of the Slurm job in which tpx runs.");
    command.option("--lost", &plan.lost, "NAMES", "Hosts or devices that failed, such as n3,n[7-9] or n3:2")
        .details(
            "No process runs on a lost host, its store is not read, and it gets no rank. If only some devices of a "
            "host are lost, its store is still read.");
    command.option("--leaving", &options.leaving, "HOSTS", "Hosts whose stores are read, but that get nothing");
    command.option("--within", &options.within, "TIME", "Time until the leaving hosts are gone, such as 90s")
        .details(
            "Requires --store and --leaving; cannot be combined with --import or --export. Units: s (the "
            "default), min and h. Files that only leaving hosts have are saved on the other hosts first; a note says "
            "whether this finishes in time; see PREEMPTED HOSTS in tpx-migrate(1).");
    add_hardware_option(command, plan.hardware, "NIC and disk rates of the hosts",
                        "Rates that neither FILE nor --hosts gives are assumed.");
    command.option("--spare", &plan.spare, "NAMES", "Empty hosts to use only if the others are too few");
    command.flag("--pin", &plan.pin, "Place the new ranks on hosts in order; do not optimize");
    command.flag("--emulate", &options.emulate, "Processes act for the hosts in turn, wherever they run")
        .details("Process k acts for the k-th host that is not lost, round-robin. For trials on one machine.");
    command.option("--launch", &plan.launch, "FILE", "Write a script that starts each rank on the host of its state")
        .file()
        .details(
            "Like tpx plan --launch. Each rank also gets TPX_STATE, the folder of its state, and with --data-store "
            "TPX_DATA, the folder of the data files.");
}

}  // namespace

void add_migrate(Cli& cli) {
    auto options = std::make_shared<MigrateRequest>();
    PlanOptions& plan = options->plan;
    Command& command = cli.command("migrate", "Move training state between node-local stores");
    command.purpose(
        "Reshards training state that is stored on the local disks of several hosts, and can move it to other hosts. "
        "Each host reads its own store, sends other hosts what they lack, and writes the files that its new ranks "
        "read. With --store, stores keep states with checksums, and all hosts switch to a new state together. Start at "
        "least one process on each host.");
    command.positional("STORES", &plan.stores, "Path of each host's checkpoint, or hold:NAME; {host} is replaced")
        .required({"--store"});
    command.positional("OUT", &options->output, "Folder to create on each host; {host} is replaced")
        .required({"--store"});
    add_target_options(command, plan, {"--store"}, "auto: the layout that tpx plan --to auto lists first.");
    add_technique_options(command, plan, layout_techniques, "layouts", "With --to auto: ");
    command.option("--batch", &plan.batch, "N", "Samples of a global batch, which virtual nodes share")
        .details(
            "Requires vn= in the layout. The result then contains the samples of each virtual node and the local batch "
            "and gradient weight of each rank, see VIRTUAL NODES in tpx-migrate(1).");
    command.option("--data", &options->data, "FILE", "Position of the job in its data; see tpx-data(5)")
        .file()
        .details(
            "Writes tpx.data.json beside the state, with the samples of each rank in every global batch. The default "
            "is the position in the tpx.data.json of the state that is read, if it has one.");
    command
        .option("--data-store", &options->data_store, "PATTERN",
                "Folder of each host for the data files; {host} is replaced")
        .details(
            "Requires --store, and files in the data position. Before the stores switch to the new state, each host "
            "with ranks gets the data files that it lacks; see DATA FILES in tpx-migrate(1).");
    command
        .option("--assignment", &options->assignment, "FILE",
                "Virtual nodes of each device type, written by tpx profile hetero")
        .file()
        .details(
            "Each rank runs as many virtual nodes as FILE assigns to the type of its device, which is device_type in "
            "the file of --hosts. See VIRTUAL NODES in tpx-migrate(1).");
    add_store_options(command, *options);
    add_cluster_options(command, *options);
    command.group("Execution options");
    command
        .flag("-n,--dry-run", &options->dry_run, "Show what would be written and how long it takes, and write nothing")
        .details("See DRY RUN in tpx-migrate(1).");
    command.flag("--restart", &options->restart, "Start over, and remove what unfinished runs left");
    command.option("--hold", &options->hold, "SECONDS", "Also hold the new state in memory; see tpx-hold(1)")
        .details(
            "On each host, tpx hold then reads the state of the ranks of this host and keeps it in memory for SECONDS, "
            "or with none, until the state is taken or released. A state that is already current is held as well.");
    command.option("--hold-name", &options->hold_name, "NAME", "With --hold: the name of the held state")
        .default_value("the last part of OUT or --store")
        .details("{host} is replaced by the name of the host.");
    command.option("--hold-device", &options->hold_device, "D", "With --hold: memory in which the tensors are held")
        .choices({"auto", "cuda", "host"})
        .default_value("host")
        .details("See --device in tpx-hold(1).");
    add_limit_options(command, options->limits);
    add_log_option(command, options->limits);
    add_read_options(command, plan);
    command.common_options();
    command.example("mpirun -n 2 tpx migrate --emulate --hosts 2x2 --to tp=4 'a/{host}' 'b/{host}'",
                    "a trial on one machine");
    command.example("mpirun -n 2 tpx migrate --emulate --hosts 2x2 --store 's/{host}' --import ckpt",
                    "put a checkpoint into managed stores");
    command.example("mpirun -n 2 tpx migrate --emulate --hosts 2x2 --store 's/{host}' --to tp=4",
                    "change its layout there");
    command.run([options](Output& out) { run_migrate(*options, out); });
}

}  // namespace tpx::cli
