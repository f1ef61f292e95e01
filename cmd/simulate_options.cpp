// SPDX-License-Identifier: Apache-2.0
#include "cmd/output.hpp"
#include "cmd/profile.hpp"
#include "cmd/simulate.hpp"
#include "formats/trace/rows.hpp"
#include "lib/cluster/failures.hpp"
#include "lib/cluster/speed.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

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

// "90", "90s", "15m", "12h", "30d"
Time duration_from(std::string_view text, std::string_view what) {
    double unit = 1;
    for (const auto& [sign, seconds] : {std::pair{'s', 1.0}, {'m', 60.0}, {'h', 3600.0}, {'d', 86400.0}})
        if (text.ends_with(sign)) unit = seconds;
    const bool has_unit = !text.empty() && (text.back() < '0' || text.back() > '9') && text.back() != '.';
    double value = -1;
    try {
        value = unit * formats::parse_number(text.substr(0, text.size() - (has_unit ? 1 : 0)));
    } catch (const Error&) {
    }
    if (!(value >= 0 && value <= formats::longest_time))
        throw Error{Exit::usage, "{}: '{}' is no time such as 90, 15m, 12h or 30d", what, text};
    return time_of(value);
}

double factor_from(std::string_view text, std::string_view what, double most) {
    double value = 0;
    try {
        value = formats::parse_number(text);
    } catch (const Error&) {
    }
    if (!(value > 0 && value <= most))
        throw Error{Exit::usage, "{}: '{}' is not above 0 and at most {:g}", what, text, most};
    return value;
}

std::uint64_t seed_of(const SimulateOptions& options) {
    return static_cast<std::uint64_t>(whole_number(options.seed, "--seed", 1, 0, std::numeric_limits<int>::max()));
}

}  // namespace

TraceFilter filter_of(const SimulateOptions& options) {
    TraceFilter filter;
    filter.seed = seed_of(options);
    if (!options.load.empty()) filter.load = factor_from(options.load, "--load", 1e6);
    if (!options.sample.empty()) filter.sample = factor_from(options.sample, "--sample", 1);
    if (options.window.empty()) return filter;
    const std::string_view window = options.window;
    const std::size_t dots = window.find("..");
    if (dots == window.npos) throw Error{Exit::usage, "--window: '{}' is not as 0..12h", window};
    filter.window = {duration_from(window.substr(0, dots), "--window"),
                     duration_from(window.substr(dots + 2), "--window")};
    return filter;
}

void add_outages(const SimulateOptions& options, const Cluster& cluster, const std::vector<TraceJob>& jobs,
                 Rules& rules) {
    if (!options.checkpoint.empty()) rules.checkpoint = duration_from(options.checkpoint, "--checkpoint");
    const Time repair = duration_from(options.repair.empty() ? "1h" : options.repair, "--repair");
    if (options.mtbf.empty()) return;
    const Time between = duration_from(options.mtbf, "--mtbf");
    constexpr Time least = 60 * second;
    if (between < least) throw Error{Exit::usage, "--mtbf: a host must be up for a minute on average"};
    double work = 0;
    for (const TraceJob& job : jobs) work += job.work / full_rate(job, cluster);
    const double enough = std::min(3 * work, 1e15);  // all jobs, one after another, three times
    const Time end = jobs.back().arrival + static_cast<Time>(enough);
    const double count =
        static_cast<double>(end) / static_cast<double>(between + repair) * static_cast<double>(cluster.hosts.size());
    constexpr double most_outages = 5e6;
    const Time until = count <= most_outages ? end : static_cast<Time>(static_cast<double>(end) * most_outages / count);
    rules.outages = random_outages(cluster, between, repair, until, seed_of(options));
}

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
