// SPDX-License-Identifier: Apache-2.0
#include "formats/trace/cluster_file.hpp"
#include "formats/trace/trace_file.hpp"
#include "lib/cluster/metrics.hpp"
#include "lib/cluster/policies.hpp"
#include "lib/cluster/simulation.hpp"
#include "lib/core/file.hpp"

#include <doctest/doctest.h>

namespace tpx {
namespace {

Summary play(std::string_view policy, const std::string& speeds_file) {
    const std::string folder = "testdata/simulate/";
    const Cluster cluster = formats::read_cluster("2x4");
    const formats::SpeedBook speeds =
        formats::parse_speeds(read_file(folder + speeds_file, 1 << 20), speeds_file, cluster);
    const formats::Trace trace = formats::read_trace(folder + "virtualflow20.json", cluster, speeds);
    REQUIRE(trace.jobs.size() == 20);
    // Means of the logs: workers start for 82 s, those that join for 78 s; GPUs are given out 12.8 s after a decision.
    Rules rules;
    rules.delays = {.start = 82 * second,
                    .single = 0,
                    .grow = 78 * second,
                    .shrink = 2'300'000,
                    .release = 10'500'000,
                    .background = true};
    return summarise(cluster, trace.jobs, Simulation{cluster, trace.jobs, rules}.run(*find_policy(policy)->make()));
}

// Figures 11 and 12 of VirtualFlow, as its logs have them.
TEST_CASE("20 jobs on 8 GPUs under static priority are as VirtualFlow measured them") {
    const Summary is = play("priority", "virtualflow20-static.csv");
    CHECK(is.worked == doctest::Approx(0.7108).epsilon(0.01));
    CHECK(is.makespan == doctest::Approx(11939.3).epsilon(0.01));
    CHECK(is.median_jct == doctest::Approx(2688).epsilon(0.01));
    CHECK(is.median_queueing == doctest::Approx(1850).epsilon(0.01));
    CHECK(is.mean_jct == doctest::Approx(4004.6).epsilon(0.01));
}

// Two jobs are let in at other times than in the log: 92.4 % of the GPUs work here, 90.6 % did there.
TEST_CASE("20 jobs on 8 GPUs under elastic fair sharing are as VirtualFlow measured them") {
    const Summary is = play("wfs", "virtualflow20-elastic.csv");
    CHECK(is.worked == doctest::Approx(0.9057).epsilon(0.025));
    CHECK(is.makespan == doctest::Approx(6504.5).epsilon(0.01));
    CHECK(is.median_jct == doctest::Approx(1408).epsilon(0.01));
    CHECK(is.median_queueing == doctest::Approx(12.8).epsilon(0.01));
}

}  // namespace
}  // namespace tpx
