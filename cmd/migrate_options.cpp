// SPDX-License-Identifier: Apache-2.0
#include "cmd/shared_options.hpp"

#include <memory>

namespace tpx::cli {

void add_migrate(Cli& cli) {
    auto options = std::make_shared<MigrateOptions>();
    PlanOptions& plan = options->plan;
    Command& command = cli.command("migrate", "Move training state between node-local stores");
    command.purpose(
        "Reshards a checkpoint that is stored on the local disks of several hosts, and can move it to other hosts. "
        "Each "
        "host reads its own store, sends other hosts what they lack, and writes the files that its new ranks read. "
        "Start at least one process on each host.");
    command.positional("STORES", &plan.stores, "Path of each host's checkpoint; {host} is replaced").required();
    command.positional("OUT", &options->output, "Folder to create on each host; {host} is replaced").required();
    add_target_options(command, plan, {});
    command.group("Cluster options");
    command.option("--hosts", &plan.hosts, "HOSTS", "Hosts: a file, NxG (N hosts with G devices), or slurm")
        .required()
        .file()
        .details("slurm: the hosts of the Slurm job in which tpx runs.");
    command.option("--lost", &plan.lost, "NAMES", "Hosts or devices that failed, such as n3,n[7-9] or n3:2")
        .details(
            "No process runs on a lost host, its store is not read, and it gets no rank. If only some devices of a "
            "host are lost, its store is still read.");
    command.option("--spare", &plan.spare, "NAMES", "Empty hosts to use only if the others are too few");
    command.flag("--pin", &plan.pin, "Place the new ranks on hosts in order; do not optimize");
    command.flag("--emulate", &options->emulate, "Processes act for the hosts in turn, wherever they run")
        .details("Process k acts for the k-th host that is not lost, in turn. For trials on one machine.");
    command.group("Execution options");
    command.flag("--dry-run", &options->dry_run, "Show what would be written, and write nothing");
    command.flag("--restart", &options->restart, "Start over, and remove what unfinished runs left");
    add_limit_options(command, options->limits);
    add_read_options(command, plan);
    command.common_options();
    command.example("mpirun -n 2 tpx migrate --emulate --hosts 2x2 --to tp=4 'a/{host}' 'b/{host}'",
                    "a trial on one machine");
    command.run([options](Output& out) { run_migrate(*options, out); });
}

}  // namespace tpx::cli
