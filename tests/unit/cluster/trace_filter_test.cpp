// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/trace_filter.hpp"

#include "lib/cluster/failures.hpp"
#include "tests/unit/cluster/random_trace.hpp"

#include <doctest/doctest.h>

namespace tpx {
namespace {

TEST_CASE("filters keep a window, a share, and let jobs come faster") {
    std::mt19937 random{9};
    const std::vector<TraceJob> jobs = test::random_jobs(random, 2000, 16);
    const std::vector<TraceJob> window = filtered(jobs, {.window = {{1000 * second, 50000 * second}}});
    REQUIRE(!window.empty());
    for (const TraceJob& job : window) {
        CHECK(job.arrival >= 0);
        CHECK(job.arrival < 49000 * second);
    }
    const std::vector<TraceJob> some = filtered(jobs, {.sample = 0.25, .seed = 3});
    CHECK(some.size() > 400);
    CHECK(some.size() < 600);
    const std::vector<TraceJob> again = filtered(jobs, {.sample = 0.25, .seed = 3});
    REQUIRE(again.size() == some.size());
    for (std::size_t i = 0; i < some.size(); ++i) CHECK(some[i].name == again[i].name);
    CHECK(filtered(jobs, {.load = 2}).back().arrival == jobs.back().arrival / 2);
}

TEST_CASE("a script follows the jobs that filters leave") {
    std::vector<TraceJob> jobs(3);
    for (int i = 0; i < 3; ++i) jobs[i].name = fmt::format("j{}", i), jobs[i].arrival = 100 * i * second;
    std::vector<ScriptedEvent> script(4);
    for (int i = 0; i < 4; ++i) script[i].time = (50 + 100 * i) * second;
    script[0].host = 0, script[1].job = 0, script[2].job = 2, script[3].host = 1;
    const TraceFilter filter{.window = {{100 * second, 300 * second}}, .load = 2};
    const std::vector<TraceJob> kept = filtered(jobs, filter);
    REQUIRE(kept.size() == 2);
    const std::vector<ScriptedEvent> left = filtered(script, jobs, kept, filter);
    REQUIRE(left.size() == 3);
    CHECK(left[0].host == 0);
    CHECK(left[0].time == 0);
    CHECK(left[1].job == 1);  // j2
    CHECK(left[1].time == 75 * second);
    CHECK(left[2].host == 1);
    CHECK(left[2].time == 125 * second);
}

TEST_CASE("outages follow the jobs that filters leave") {
    const TraceFilter filter{.window = {{100 * second, 300 * second}}, .load = 2};
    const std::vector<Outage> outages{{0, 10 * second, 100 * second},
                                      {1, 50 * second, 140 * second},
                                      {2, 200 * second, 260 * second},
                                      {3, 120 * second, never}};
    const std::vector<Outage> left = filtered(outages, filter);
    REQUIRE(left.size() == 3);
    CHECK((left[0].host == 1 && left[0].begin == 0 && left[0].end == 20 * second));
    CHECK((left[1].host == 2 && left[1].begin == 50 * second && left[1].end == 80 * second));
    CHECK((left[2].host == 3 && left[2].begin == 10 * second && left[2].end == never));
}

TEST_CASE("random outages are apart by their mean, and the same for a seed") {
    const Cluster cluster = test::simple_cluster(50, 8);
    const Time hour = 3600 * second;
    const std::vector<Outage> outages = random_outages(cluster, 100 * hour, hour, 10000 * hour, 1);
    CHECK(static_cast<double>(outages.size()) == doctest::Approx(50 * 10000.0 / 101).epsilon(0.05));
    const std::vector<Outage> again = random_outages(cluster, 100 * hour, hour, 10000 * hour, 1);
    REQUIRE(again.size() == outages.size());
    for (std::size_t i = 0; i < outages.size(); ++i) {
        CHECK(outages[i].begin == again[i].begin);
        CHECK(outages[i].end - outages[i].begin == hour);
        if (i > 0 && outages[i].host == outages[i - 1].host) CHECK(outages[i].begin > outages[i - 1].end);
    }
}

}  // namespace
}  // namespace tpx
