// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/filter.hpp"

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
