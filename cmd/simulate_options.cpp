// SPDX-License-Identifier: Apache-2.0
#include "cmd/simulate.hpp"

#include <memory>

namespace tpx::cli {
namespace {

void add_rules(Command& command, SimulateOptions& options) {
    command.option("--quantum", &options.quantum, "S", "Decide every S seconds, not at every event")
        .details("Jobs still finish at any time; the GPUs that they leave are used from the next round on.");
    command.option("--reconfig", &options.reconfig, "COST", "Of a start or change: seconds, plan or checkpoint")
        .details(
            "Seconds are the same for all; the default is 0. plan has the real planner find what must move between the "
            "old and the new layout and GPUs of the job, at the rates of the hosts; checkpoint writes all state to "
            "storage and reads it again. Both need --models, and add the seconds of --restart. The job holds its GPUs "
            "meanwhile and does not train.");
    command.option("--models", &options.models, "FILE", "What jobs keep, for --reconfig plan or checkpoint")
        .file()
        .details("See tpx-trace(5).");
    command.option("--hardware", &options.hardware, "FILE", "Rates of hosts, as tpx profile hardware writes them")
        .rare()
        .file()
        .details(
            "Hosts are found by name; others are as the first one. Without a file the rates are those that tpx plan "
            "assumes.");
    command.option("--restart", &options.restart, "S", "Seconds until processes train again, beside what is moved")
        .rare()
        .details("The default is 30.");
    command.option("--delays", &options.delays, "LIST", "Delays one by one, as in start=86,release=10")
        .rare()
        .details(
            "Of start, from the GPUs to the first step; single, the same of a job that gets one GPU; change, for which "
            "a job stops that gets other GPUs; grow and "
            "shrink, which take its place and let the job train on until its new GPUs are ready, or its last step on "
            "those that it loses is done; and release, until GPUs that a job does not need any more are free.");
}

void add_filters(Command& command, SimulateOptions& options) {
    command.option("--window", &options.window, "A..B", "Only jobs that arrive from A to B")
        .rare()
        .details("In seconds since the trace began, or in hours or days, as in 12h..24h. A becomes the beginning.");
    command.option("--load", &options.load, "X", "Let jobs arrive X times as fast").rare();
    command.option("--sample", &options.sample, "SHARE", "Only this share of the jobs, chosen at random")
        .rare()
        .details("A number above 0, at most 1.");
    command.option("--seed", &options.seed, "N", "What is random depends on N").rare().details("The default is 1.");
}

void add_failures(Command& command, SimulateOptions& options) {
    command.option("--outages", &options.outages, "FILE", "When which hosts are down")
        .rare()
        .file()
        .details("See tpx-trace(5).");
    command.option("--mtbf", &options.mtbf, "TIME", "Let hosts fail, each after TIME on average")
        .rare()
        .details(
            "As in 30d; the times between failures are exponential. Jobs on the host lose all their GPUs and wait "
            "again.");
    command.option("--repair", &options.repair, "TIME", "How long a failed host is down")
        .rare()
        .details("The default is 1h.");
    command.option("--checkpoint", &options.checkpoint, "TIME", "Time between checkpoints, to which failures go back")
        .rare()
        .details("Without it, failures lose no work.");
}

}  // namespace

void add_simulate(Cli& cli) {
    auto options = std::make_shared<SimulateOptions>();
    Command& command = cli.command("simulate", "Replay a trace of jobs under scheduling policies");
    command.positional("TRACE", &options->trace, "Jobs: a file as in tpx-trace(5)").required({"--generate"}).file();
    command.option("--generate", &options->generate, "LIST", "Random jobs, as in jobs=500,hourly=12")
        .rare()
        .details(
            "Jobs arrive at random times, hourly so many on average. durations is philly, as in Microsoft's trace of "
            "2017, or a mean time such as 2h of exponential ones; gpus is philly or a list such as 1/2/4, and "
            "priorities a list. The defaults are jobs=1000, hourly=12, philly and priority 1; --seed makes others.");
    command.option("--cluster", &options->cluster, "C", "NxG (N hosts of G GPUs), or a file")
        .required()
        .file()
        .details("Kinds of GPUs stand behind colons, as in 1x4:V100,2x8:K80. The file is described in tpx-cluster(5).");
    command.option("--policy", &options->policies, "P,...", "Policies to compare")
        .details("Those of POLICIES, with commas between them. fifo-backfill is always there for comparison.");
    command.option("--speeds", &options->speeds, "FILE", "How fast jobs are with how many GPUs")
        .file()
        .details("See tpx-trace(5).");
    add_rules(command, *options);
    command.option("--jobs", &options->jobs, "FILE", "Write what became of each job, CSV").file();
    command.option("--sweep", &options->sweep, "KEY=A,B,..", "Play for each value of an option, several at a time")
        .rare()
        .details(
            "Of load, sample, seed, quantum, reconfig, restart, mtbf, repair, checkpoint or cluster. A table compares "
            "the policies; --report has the curves.");
    command.option("--write-trace", &options->write_trace, "FILE", "Write the jobs that are played as a trace, CSV")
        .rare()
        .file();
    command.option("--report", &options->report, "FILE", "Write a page for browsers, HTML").file();
    command.option("--timeline", &options->timeline, "FILE", "Write what ran when, for ui.perfetto.dev").file();
    add_filters(command, *options);
    add_failures(command, *options);
    command.flag("--skip-bad", &options->skip_bad, "Leave out jobs that cannot be, and list them");
    command.common_options();
    command.example("tpx simulate philly.csv --cluster 311x8 --policy srtf,las", "two policies and fifo-backfill");
    command.run([options](Output& out) { run_simulate(*options, out); });
}

}  // namespace tpx::cli
