// SPDX-License-Identifier: Apache-2.0
#include "cmd/output.hpp"
#include "cmd/simulate.hpp"
#include "formats/profile/table.hpp"
#include "lib/core/error.hpp"

#include <memory>

namespace tpx::cli {
namespace {

constexpr double longest_delay = 1e7;

Time seconds_from(std::string_view text, std::string_view what) {
    double value = -1;
    try {
        value = formats::parse_number(text);
    } catch (const Error&) {
    }
    if (!(value >= 0 && value <= longest_delay))
        throw Error{Exit::usage, "{}: '{}' is no number of seconds from 0 to {:g}", what, text, longest_delay};
    return time_of(value);
}

// "start=86,grow=86,shrink=1,release=10"
void read_delays(std::string_view text, Delays& delays) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(','), text.size());
        const std::string_view word = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        const std::size_t equals = std::min(word.find('='), word.size());
        const std::string_view key = word.substr(0, equals);
        const Time value = seconds_from(word.substr(std::min(equals + 1, word.size())), "--delays");
        if (key == "start")
            delays.start = delays.single = value;
        else if (key == "single")
            delays.single = value;
        else if (key == "change")
            delays.change = value;
        else if (key == "grow")
            delays.grow = value, delays.background = true;
        else if (key == "shrink")
            delays.shrink = value, delays.background = true;
        else if (key == "release")
            delays.release = value;
        else
            throw Error{Exit::usage,
                        "--delays: unknown '{}'; start, single, change, grow, shrink and release are known", key};
    }
}

void add_rules(Command& command, SimulateOptions& options) {
    command.option("--quantum", &options.quantum, "S", "Decide every S seconds, not at every event")
        .details("Jobs still finish at any time; the GPUs that they leave are used from the next round on.");
    command.option("--reconfig", &options.reconfig, "S", "Seconds that each start or change of a job takes")
        .details("The job holds its GPUs meanwhile and does not train. The default is 0.");
    command.option("--delays", &options.delays, "LIST", "Delays one by one, as in start=86,release=10")
        .rare()
        .details(
            "Of start, from the GPUs to the first step; single, the same of a job that gets one GPU; change, for which "
            "a job stops that gets other GPUs; grow and "
            "shrink, which take its place and let the job train on until its new GPUs are ready, or its last step on "
            "those that it loses is done; and release, until GPUs that a job does not need any more are free.");
}

}  // namespace

Rules rules_of(const SimulateOptions& options) {
    Rules rules;
    if (!options.quantum.empty()) rules.quantum = seconds_from(options.quantum, "--quantum");
    if (!options.reconfig.empty())
        rules.delays.start = rules.delays.single = rules.delays.change = seconds_from(options.reconfig, "--reconfig");
    read_delays(options.delays, rules.delays);
    return rules;
}

void add_simulate(Cli& cli) {
    auto options = std::make_shared<SimulateOptions>();
    Command& command = cli.command("simulate", "Replay a trace of jobs under scheduling policies");
    command.positional("TRACE", &options->trace, "Jobs: a file as in tpx-trace(5)").required().file();
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
    command.flag("--skip-bad", &options->skip_bad, "Leave out jobs that cannot be, and list them");
    command.common_options();
    command.example("tpx simulate philly.csv --cluster 311x8 --policy srtf,las", "two policies and fifo-backfill");
    command.run([options](Output& out) { run_simulate(*options, out); });
}

}  // namespace tpx::cli
