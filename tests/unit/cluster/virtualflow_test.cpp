// SPDX-License-Identifier: Apache-2.0
#include "formats/files/trace/cluster_file.hpp"
#include "formats/files/trace/trace_file.hpp"
#include "lib/cluster/policies.hpp"
#include "lib/cluster/simulation.hpp"
#include "lib/cluster/summary.hpp"
#include "lib/core/file.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <map>

namespace tpx {
namespace {

struct VirtualFlowReplay {
    Cluster cluster;
    formats::ParsedTrace trace;
    SimulationResults results;
    SimulationSummary summary;
};

VirtualFlowReplay play(std::string_view policy, const char* cluster, const std::string& trace,
                       const std::string& speeds, Delays delays) {
    const std::string folder = "testdata/simulate/";
    VirtualFlowReplay replay{formats::read_cluster(cluster), {}, {}, {}};
    const formats::JobSpeeds book = formats::parse_speeds(read_file(folder + speeds, 1 << 20), speeds, replay.cluster);
    replay.trace = formats::read_trace(folder + trace, replay.cluster, book);
    SimulationRules rules;
    rules.delays = delays;
    rules.segments = true;
    replay.results = Simulation{replay.cluster, replay.trace.jobs, rules}.run(*find_policy(policy)->make());
    replay.summary = summarize(replay.cluster, replay.trace.jobs, replay.results);
    return replay;
}

// Means of the logs: workers start for 82 s, those that join for 78 s; GPUs are given out 12.8 s after a decision.
VirtualFlowReplay play20(std::string_view policy, const std::string& speeds) {
    const Delays delays{.start = 82 * second,
                        .single = 0,
                        .grow = 78 * second,
                        .shrink = 2'300'000,
                        .release = 10'500'000,
                        .background = true};
    return play(policy, "2x4", "virtualflow20.json", speeds, delays);
}

// How many GPUs `job` had, one number after another: GPUs that are on their way back count no more.
std::string shares_of(const VirtualFlowReplay& replay, int job) {
    std::string text;
    std::map<Time, int> gpus;  // by begin: those that train, and those that wait
    for (const JobSegment& segment : replay.results.segments)
        if (segment.job == job) gpus[segment.begin] += segment.grant.gpus();
    int last = 0;
    for (const auto& [begin, count] : gpus) {
        if (count == last) continue;
        last = count;
        text += fmt::format("{}{}", text.empty() ? "" : " ", last);
    }
    return text;
}

// Figures 11 and 12 of VirtualFlow, as its logs have them.
TEST_CASE("20 jobs on 8 GPUs under static priority are as VirtualFlow measured them") {
    const SimulationSummary is = play20("priority", "virtualflow20-static.csv").summary;
    CHECK(is.worked == doctest::Approx(0.7108).epsilon(0.01));
    CHECK(is.makespan == doctest::Approx(11939.3).epsilon(0.01));
    CHECK(is.median_jct == doctest::Approx(2688).epsilon(0.01));
    CHECK(is.median_queueing == doctest::Approx(1850).epsilon(0.01));
    CHECK(is.mean_jct == doctest::Approx(4004.6).epsilon(0.01));
}

TEST_CASE("20 jobs on 8 GPUs under elastic fair sharing are as VirtualFlow measured them") {
    const SimulationSummary is = play20("wfs", "virtualflow20-elastic.csv").summary;
    CHECK(is.worked == doctest::Approx(0.9057).epsilon(0.01));
    CHECK(is.makespan == doctest::Approx(6504.5).epsilon(0.01));
    CHECK(is.median_jct == doctest::Approx(1408).epsilon(0.01));
    CHECK(is.median_queueing == doctest::Approx(12.8).epsilon(0.01));
    CHECK(is.mean_jct == doctest::Approx(1712.1).epsilon(0.01));
}

TEST_CASE("each of the 20 jobs has the GPUs that it had in VirtualFlow's log, one number after another") {
    const VirtualFlowReplay replay = play20("wfs", "virtualflow20-elastic.csv");
    std::ifstream log{"testdata/simulate/virtualflow20-log.csv"};
    std::string line;
    std::getline(log, line);
    int job = 0;
    for (; std::getline(log, line); ++job) {
        CAPTURE(job);
        CHECK(fmt::format("{},{}", job, shares_of(replay, job)) == line);
    }
    CHECK(job == 20);
}

// Figure 10: seconds of the logs of three jobs on four GPUs.
TEST_CASE("3 jobs on 4 GPUs are as VirtualFlow measured them") {
    const Delays delays{.start = 69 * second,
                        .single = 69 * second,
                        .grow = 52 * second,
                        .shrink = 500'000,
                        .release = 200'000,
                        .background = true};
    const auto replay = [&](std::string_view policy) {
        return play(policy, "1x4", "virtualflow3.json", "virtualflow3-speeds.csv", delays);
    };
    const VirtualFlowReplay fixed = replay("priority"), elastic = replay("wfs");
    const auto jct = [](const VirtualFlowReplay& played, int job) {
        return seconds_of(played.results.jobs[job].finish - played.results.jobs[job].arrival);
    };
    CHECK(fixed.summary.makespan == doctest::Approx(7082.9).epsilon(0.01));
    CHECK(elastic.summary.makespan == doctest::Approx(4361.9).epsilon(0.01));
    CHECK(1 - elastic.summary.makespan / fixed.summary.makespan == doctest::Approx(0.384).epsilon(0.01));
    CHECK(jct(fixed, 2) == doctest::Approx(6062.8).epsilon(0.01));
    CHECK(jct(elastic, 2) == doctest::Approx(3341.9).epsilon(0.01));
    CHECK(1 - jct(elastic, 2) / jct(fixed, 2) == doctest::Approx(0.449).epsilon(0.01));
    CHECK(shares_of(elastic, 0) == "4 2 1");
    CHECK(shares_of(elastic, 1) == "2 1 2");
    CHECK(shares_of(elastic, 2) == "2 4");
}

}  // namespace
}  // namespace tpx
