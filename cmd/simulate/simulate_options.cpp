// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/shared_options.hpp"
#include "cmd/simulate/simulate.hpp"
#include "formats/files/trace/rows.hpp"
#include "lib/cluster/policies.hpp"
#include "lib/model/techniques.hpp"

#include <limits>
#include <memory>

namespace tpx::cli {
namespace {

std::vector<std::string> policy_names() {
    std::vector<std::string> names;
    for (const PolicyInfo& policy : policies()) names.emplace_back(policy.name);
    return names;
}

void add_costs(Command& command, SimulateOptions& options) {
    command.group("Scheduling and costs");
    command.option("--quantum", &options.quantum, "S", "Make scheduling decisions every S seconds, not at every event")
        .at_least(0)
        .at_most(longest_delay)
        .details("Jobs can finish between decisions; their GPUs are reassigned at the next one.");
    command
        .option("--reconfig", &options.reconfig, "COST",
                "Cost of starting or resizing a job: seconds, plan, central or checkpoint")
        .suggestions({"plan", "central", "checkpoint"})
        .default_value("0")
        .details(
            "A number of seconds is the cost for every job. plan: the time to move the bytes that the planner computes "
            "for the job's old and new layout and GPUs, at the rates of the hosts. central: the time to collect all "
            "state on one host and to send each host its part from there. checkpoint: the time to write all state to "
            "shared storage and to read it. plan, central and checkpoint require --models and add the seconds of "
            "--restart. Meanwhile the job holds its GPUs but does not train.");
    command
        .option("--models", &options.models, "FILE",
                "Size and layout of each job's state, for --reconfig plan, central or checkpoint; see tpx-trace(5)")
        .file();
    add_hardware_option(command, options.hardware,
                        "Transfer rates, for --reconfig plan, central or checkpoint (written by tpx profile hardware)",
                        "Without FILE, the rates are those that tpx plan assumes.");
    command
        .option("--restart", &options.restart, "S",
                "With --reconfig plan, central or checkpoint: seconds from the end of the transfer to the next step")
        .at_least(0)
        .at_most(longest_delay)
        .default_value("30");
    command.option("--delays", &options.delays, "LIST", "Per-event delays in seconds, such as start=86,release=10")
        .suggestions({"start=", "single=", "change=", "grow=", "shrink=", "release="})
        .details(
            "start: from getting GPUs to the first step; single: the same for a job with one GPU; change: pause of a "
            "job when its GPUs change; grow and shrink: replace change and let the job train until its new GPUs are "
            "ready, or until its last step on the GPUs it gives up ends; release: time until the GPUs of a finished "
            "job are free.");
}

void add_filters(Command& command, SimulateOptions& options) {
    command.group("Trace options");
    command.option("--generate", &options.generate, "LIST", "Generate random jobs, such as jobs=500,hourly=12")
        .suggestions({"jobs=", "hourly=", "durations=", "gpus=", "priorities="})
        .details(
            "Keys and defaults: jobs (1000); hourly (12, mean arrivals per hour); durations (philly, the distribution "
            "in Microsoft's trace of 2017, or the mean of an exponential distribution such as 2h); gpus (philly, or a "
            "list such as 1/2/4); priorities (none, or a list). --seed selects another sequence.");
    command.option("--window", &options.window, "A..B", "Use only jobs that arrive between A and B")
        .details(
            "A and B are seconds since the start of the trace, or have units, as in 12h..24h or 0..60d. A becomes time "
            "0.");
    command.option("--load", &options.load, "X", "Multiply the arrival rate by X")
        .at_least(1e-6)  // at lower rates, times would exceed the range of Time
        .at_most(1e6)
        .default_value("1");
    command.option("--sample", &options.sample, "SHARE", "Use a random fraction of the jobs, such as 0.1")
        .above(0)
        .at_most(1);
    command.option("--seed", &options.seed, "N", "Seed of all random numbers")
        .range(0, std::numeric_limits<int>::max())
        .default_value("1");
    command
        .option("--elastic", &options.elastic, "A..B",
                "Let a job use A to B times its requested GPUs, unless the trace sets limits")
        .details(
            "0..1 allows 1 GPU up to the request; 1..4 allows the request up to four times as many. By default, a job "
            "without limits gets exactly the GPUs it requests, unless --speeds contains its throughput on other "
            "numbers of GPUs.");
    command.flag("--skip-bad", &options.skip_bad, "Skip invalid jobs and list them");
}

void add_failures(Command& command, SimulateOptions& options) {
    command.group("Failure options");
    command.option("--outages", &options.outages, "FILE", "Times at which hosts are down; see tpx-trace(5)").file();
    command.option("--mtbf", &options.mtbf, "TIME", "Mean time between failures of a host, such as 30d")
        .at_least(60)
        .at_most(formats::max_trace_seconds)
        .details(
            "Times between failures are exponentially distributed. A job on a failed host loses all its GPUs and "
            "returns to the queue.");
    command.option("--repair", &options.repair, "TIME", "With --mtbf: how long a failed host is down")
        .at_least(0)
        .at_most(formats::max_trace_seconds)
        .default_value("1h");
    command.option("--checkpoint", &options.checkpoint, "TIME", "With --outages or --mtbf: checkpoint interval")
        .at_least(0)
        .at_most(formats::max_trace_seconds)
        .default_value("none; failures lose no work")
        .details("A failed job continues from its last checkpoint.");
    command.option("--recover", &options.recover, "FROM", "With --outages or --mtbf: where a failed job gets its state")
        .choices({"checkpoint", "replicas"})
        .default_value("checkpoint")
        .details(
            "replicas: if the hosts of the job that are left have all its state, they send it to the new hosts, and no "
            "work is lost; otherwise, as checkpoint. Requires --reconfig plan, central or checkpoint.");
}

void add_scripts(Command& command, SimulateOptions& options) {
    command.group("Changes during the run");
    command
        .option("--events", &options.events, "FILE",
                "Changes of hosts' GPUs and of jobs' limits and cores; see tpx-trace(5)")
        .file()
        .details(
            "A job that loses GPUs by an event keeps all its work. Policies that resize jobs leave it the rest of its "
            "GPUs if it can run on them; otherwise it returns to the queue.");
    command
        .option("--model-error", &options.model_error, "X", "Give models a log-normal error with standard deviation X")
        .above(0)
        .at_most(2)
        .details(
            "Jobs train at the step times that the models of --speeds predict. Policies see models in which every "
            "parameter is off by a random factor; its logarithm is normal with standard deviation X, so that 0.3 means "
            "errors of about 30 %.");
    command.option("--refit", &options.refit, "TIME", "Refit these models to step times measured during the run")
        .at_most(formats::max_trace_seconds)
        .default_value("never")
        .details(
            "When a job has trained for TIME with the same plan and GPUs, such as 60s, its step time is measured. "
            "Measured step times replace predictions for that plan and placement, and the model is refitted to them.");
}

void add_outputs(Command& command, SimulateOptions& options) {
    command.group("Output options");
    command.option("--jobs", &options.jobs, "FILE", "Write one CSV row per job").file();
    command.option("--report", &options.report, "FILE", "Write an HTML page to FILE").file();
    command.option("--timeline", &options.timeline, "FILE", "Write a timeline to open in ui.perfetto.dev").file();
    command.option("--write-trace", &options.write_trace, "FILE", "Write the simulated jobs as a CSV trace")
        .file()
        .details(
            "With the same --cluster and --speeds, and without the options that select or change jobs, a simulation of "
            "FILE has the same results.");
    command.option("--sweep", &options.sweep, "KEY=A,B,..", "Simulate each value of one option, in parallel")
        .suggestions(sweep_keys())
        .details(
            "KEY is load, sample, seed, quantum, reconfig, restart, mtbf, repair, checkpoint or cluster. A table "
            "compares the policies; --report draws the curves.");
}

void describe(Command& command, SimulateOptions& options) {
    command.purpose(
        "Simulates a cluster that runs the jobs of TRACE under each policy and prints job completion times, queueing "
        "times, utilization and resizes. fifo-backfill is always simulated for comparison.");
    command.positional("TRACE", &options.trace, "Job trace; - is standard input; see tpx-trace(5) for formats")
        .required({"--generate"})
        .file();
    command.group("Cluster and policies");
    command.option("--cluster", &options.cluster, "C", "NxG (N hosts with G GPUs each), or a file; see tpx-cluster(5)")
        .required()
        .file()
        .details("GPU types follow a colon, as in 1x4:V100,2x8:K80.");
    command.option("--policy", &options.policies, "P,...", "Policies to compare")
        .any_of(policy_names())
        .default_value("fifo-backfill")
        .details("See POLICIES below.");
    command.option("--speeds", &options.speeds, "FILE", "Measured job throughput per number of GPUs; see tpx-trace(5)")
        .file();
    add_technique_options(command, options, techniques, "plans", "With --speeds: ");
    add_costs(command, options);
    add_filters(command, options);
    add_failures(command, options);
    add_scripts(command, options);
    add_outputs(command, options);
    command.common_options();
}

}  // namespace

void set_option(SimulateOptions& options, const std::string& name, const std::string& value) {
    Command command{"simulate", ""};
    describe(command, options);
    command.find(name)->store({value});
}

void add_simulate(Cli& cli) {
    auto options = std::make_shared<SimulateOptions>();
    Command& command = cli.command("simulate", "Replay a job trace under scheduling policies");
    describe(command, *options);
    command.example("tpx simulate philly.csv --cluster 311x8 --policy srtf,las",
                    "two policies, compared with fifo-backfill");
    command.example("tpx simulate --generate jobs=500,hourly=12 --cluster 16x8 --policy las",
                    "random jobs, least attained service");
    command.example("tpx simulate philly.csv --cluster 16x8 --sweep load=0.5,1,2 --report load.html",
                    "completion times at three loads, as a page of curves");
    command.run([options](Output& out) { run_simulate(*options, out); });
}

}  // namespace tpx::cli
