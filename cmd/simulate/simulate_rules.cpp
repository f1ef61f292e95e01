// SPDX-License-Identifier: Apache-2.0
#include "cmd/output/output.hpp"
#include "cmd/profile/profile.hpp"
#include "cmd/simulate/simulate.hpp"
#include "formats/files/plan/hosts_file.hpp"
#include "formats/files/trace/models_file.hpp"
#include "formats/files/trace/outages_file.hpp"
#include "formats/files/trace/rows.hpp"
#include "formats/rules/rules.hpp"
#include "lib/cluster/failures.hpp"
#include "lib/cluster/gpu_pool.hpp"
#include "lib/cluster/model_error.hpp"
#include "lib/cluster/planned_changes.hpp"
#include "lib/cluster/speed.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/nearest.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

namespace tpx::cli {
namespace {

constexpr double usual_restart = 30;

Time seconds_from(std::string_view text, std::string_view what) {
    double value = -1;
    try {
        value = formats::parse_number(text);
    } catch (const Error&) {
    }
    if (!(value >= 0 && value <= longest_delay))
        throw Error{Exit::usage, "{}: '{}' is not a number of seconds from 0 to {:g}", what, text, longest_delay};
    return time_of(value);
}

// Calls `body` with the two sides of each "key=value" of a list.
template <class Body>
void for_each_word(std::string_view text, Body body) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(','), text.size());
        const std::string_view word = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        const std::size_t equals = std::min(word.find('='), word.size());
        body(word.substr(0, equals), word.substr(std::min(equals + 1, word.size())));
    }
}

// "start=86,grow=86,shrink=1,release=10"
void read_delays(std::string_view text, Delays& delays) {
    static const std::vector<std::string> keys{"start", "single", "change", "grow", "shrink", "release"};
    for_each_word(text, [&](std::string_view key, std::string_view seconds) {
        if (std::ranges::count(keys, key) == 0)
            throw Error{Exit::usage,
                        "--delays: unknown event '{}'; use start, single, change, grow, shrink or release{}", key,
                        did_you_mean(key, keys)};
        const Time value = seconds_from(seconds, fmt::format("--delays: {}", key));
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
        else
            delays.release = value;
    });
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
    if (!(value >= 0 && value <= formats::max_trace_seconds))
        throw Error{Exit::usage, "{}: '{}' is not a time such as 90, 15m, 12h or 30d", what, text};
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

double whole_from(std::string_view text, std::string_view what, double most) {
    const double value = factor_from(text, what, most);
    if (value != std::floor(value)) throw Error{Exit::usage, "{}: '{}' is not a whole number", what, text};
    return value;
}

// "1/5/10"
std::vector<double> list_from(std::string_view text, std::string_view what, double most,
                              double (*number_from)(std::string_view, std::string_view, double) = factor_from) {
    std::vector<double> values;
    for (std::string_view rest = text; !rest.empty();) {
        const std::size_t end = std::min(rest.find('/'), rest.size());
        values.push_back(number_from(rest.substr(0, end), what, most));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    if (values.empty()) throw Error{Exit::usage, "{}: '{}' is not a list such as 1/2/4", what, text};
    return values;
}

bool is_planned(const SimulateOptions& options) {
    return options.reconfig == "plan" || options.reconfig == "central" || options.reconfig == "checkpoint";
}

// The rates of each host: those of the host of the same name, else of the first one.
std::vector<Host> rates_of(const Cluster& cluster, const std::string& file) {
    const std::vector<Host> known = file.empty() ? std::vector{Host{}} : formats::read_hosts(file);
    std::vector<Host> rates;
    for (const ClusterHost& host : cluster.hosts) {
        const auto found = std::ranges::find(known, host.name, &Host::name);
        rates.push_back(found == known.end() ? known.front() : *found);
    }
    return rates;
}

// Throws Error (usage) for options that have no effect because no host fails.
void check_failure_options(const SimulateOptions& options) {
    if (options.mtbf) return;
    if (options.repair)
        throw Error{Exit::usage, "--repair requires --mtbf TIME; in a file for --outages, each row has its own end"};
    if (!options.outages.empty()) return;
    for (const auto& [given, name] :
         {std::pair{options.checkpoint.has_value(), "--checkpoint"}, {!options.recover.empty(), "--recover"}})
        if (given)
            throw Error{Exit::usage, "{} requires --outages FILE or --mtbf TIME: without them, no host fails", name};
}

std::uint64_t seed_of(const SimulateOptions& options) { return static_cast<std::uint64_t>(options.seed.value_or(1)); }

}  // namespace

// "jobs=500,hourly=12,durations=philly,gpus=1/2/4,priorities=1/5/10"
TraceRecipe recipe_of(const SimulateOptions& options) {
    constexpr double most_jobs = 1e7;
    TraceRecipe recipe;
    recipe.seed = seed_of(options);
    for_each_word(options.generate, [&](std::string_view key, std::string_view value) {
        const std::string what = fmt::format("--generate: {}", key);
        if (key == "jobs")
            recipe.jobs = static_cast<int>(whole_from(value, what, most_jobs));
        else if (key == "hourly")
            recipe.hourly = factor_from(value, what, 1e9);
        else if (key == "durations" && value != "philly")
            recipe.mean_duration = seconds_of(duration_from(value, what));
        else if (key == "gpus" && value != "philly")
            for (const double gpus : list_from(value, what, 1 << 20, whole_from))
                recipe.gpus.push_back(static_cast<int>(gpus));
        else if (key == "priorities")
            recipe.priorities = list_from(value, what, 1e6);
        else if (key != "durations" && key != "gpus")
            throw Error{Exit::usage, "--generate: unknown key '{}'; use jobs, hourly, durations, gpus or priorities{}",
                        key, did_you_mean(std::string{key}, {"jobs", "hourly", "durations", "gpus", "priorities"})};
    });
    return recipe;
}

// "0..1", "0.5..4"
std::optional<Elasticity> elasticity_of(const SimulateOptions& options) {
    if (options.elastic.empty()) return {};
    const std::string_view text = options.elastic;
    const std::size_t dots = text.find("..");
    Elasticity limits{-1, -1};
    try {
        limits.least = formats::parse_number(text.substr(0, dots));
        limits.most = dots == text.npos ? -1 : formats::parse_number(text.substr(dots + 2));
    } catch (const Error&) {
    }
    if (!(limits.least >= 0 && limits.least <= 1 && limits.most >= 1))
        throw Error{Exit::usage, "--elastic: '{}' is not a range such as 0..1 or 0.5..4 that contains 1", text};
    return limits;
}

TraceFilter filter_of(const SimulateOptions& options) {
    TraceFilter filter;
    filter.seed = seed_of(options);
    filter.load = options.load.value_or(1);
    filter.sample = options.sample.value_or(1);
    if (options.window.empty()) return filter;
    const std::string_view window = options.window;
    const std::size_t dots = window.find("..");
    if (dots == window.npos) throw Error{Exit::usage, "--window: '{}' is not as 0..12h", window};
    filter.window = {duration_from(window.substr(0, dots), "--window"),
                     duration_from(window.substr(dots + 2), "--window")};
    if (filter.window->second <= filter.window->first)
        throw Error{Exit::usage, "--window: '{}' ends before it begins", window};
    return filter;
}

void add_outages(const SimulateOptions& options, const Cluster& cluster, const std::vector<TraceJob>& jobs,
                 SimulationRules& rules) {
    rules.checkpoint = time_of(options.checkpoint.value_or(0));
    const Time repair = time_of(options.repair.value_or(3600));
    if (!options.outages.empty())
        rules.outages = filtered(formats::read_outages(options.outages, cluster), filter_of(options));
    if (!options.mtbf) return;
    const Time between = time_of(*options.mtbf);
    const GpuPool empty{cluster};
    double work = 0;
    for (const TraceJob& job : jobs) work += job.work / full_rate(job, cluster, empty);
    const double enough = std::min(3 * work, 1e15);  // all jobs, one after another, three times
    const Time end = jobs.back().arrival + static_cast<Time>(enough);
    const double count =
        static_cast<double>(end) / static_cast<double>(between + repair) * static_cast<double>(cluster.hosts.size());
    constexpr double most_outages = 5e6;
    const Time until = count <= most_outages ? end : static_cast<Time>(static_cast<double>(end) * most_outages / count);
    const std::vector<Outage> random = random_outages(cluster, between, repair, until, seed_of(options));
    rules.outages.insert(rules.outages.end(), random.begin(), random.end());
}

void add_script(const SimulateOptions& options, Setup& setup) {
    SimulationRules& rules = setup.rules;
    const std::vector<TraceJob>& jobs = setup.trace.jobs;
    setup.seed = seed_of(options);
    rules.from_replicas = options.recover == "replicas";
    if (!options.model_error) {
        if (options.refit) throw Error{Exit::usage, "--refit requires --model-error X"};
        return;
    }
    setup.model_error = *options.model_error;
    if (!any_predicted(jobs))
        throw Error{Exit::usage,
                    "--model-error: no job has a throughput model; pass --speeds with models of tpx profile fit"};
    if (options.refit) rules.observe = std::max<Time>(1, time_of(*options.refit));
}

SimulationRules simulation_rules_of(const SimulateOptions& options) {
    SimulationRules rules;
    if (options.recover == "replicas" && !is_planned(options))
        throw Error{Exit::usage, "--recover replicas requires --reconfig plan, central or checkpoint, and --models"};
    check_failure_options(options);
    rules.quantum = time_of(options.quantum.value_or(0));
    if (!is_planned(options)) {
        for (const auto& [given, name] : {std::pair{options.restart.has_value(), "--restart"},
                                          {!options.models.empty(), "--models"},
                                          {!options.hardware.empty(), "--hardware"}})
            if (given) throw Error{Exit::usage, "{} is for --reconfig plan, central or checkpoint", name};
    }
    const std::string& cost = options.reconfig;
    if (!is_planned(options) && !cost.empty() && std::isalpha(static_cast<unsigned char>(cost[0])))
        throw Error{Exit::usage,
                    "--reconfig: unknown value '{}'; use a number of seconds, plan, central or checkpoint{}", cost,
                    did_you_mean(cost, {"plan", "central", "checkpoint"})};
    if (is_planned(options))
        rules.delays.start = time_of(options.restart.value_or(usual_restart));
    else if (!cost.empty())
        rules.delays.start = seconds_from(cost, "--reconfig");
    rules.delays.single = rules.delays.change = rules.delays.start;
    read_delays(options.delays, rules.delays);
    if (is_planned(options) && rules.delays.background)
        throw Error{Exit::usage, "--delays: grow and shrink exclude --reconfig {}", options.reconfig};
    return rules;
}

void add_costs(const SimulateOptions& options, const Cluster& cluster, std::vector<TraceJob>& jobs,
               SimulationRules& rules) {
    if (!is_planned(options)) return;
    if (options.models.empty())
        throw Error{Exit::usage, "--reconfig {} needs --models FILE: what is moved depends on it", options.reconfig};
    const formats::JobModels models = formats::read_models(options.models, formats::load_families({}));
    for (TraceJob& job : jobs) {
        job.model_state = models.find(job);
        if (!job.model_state)
            throw failure("{}:{}: job '{}': {} has no model '{}' for {}", options.trace, job.line, job.name,
                          options.models, job.model, counted(std::uint64_t(job.gpus), "GPU"));
    }
    const StateRoute goes = options.reconfig == "plan"      ? StateRoute::directly
                            : options.reconfig == "central" ? StateRoute::centrally
                                                            : StateRoute::by_storage;
    rules.costs =
        std::make_shared<PlannedChanges>(cluster, rates_of(cluster, options.hardware), goes, rules.delays.change);
}

}  // namespace tpx::cli
