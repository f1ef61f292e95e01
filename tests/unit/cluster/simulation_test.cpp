// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/simulation.hpp"

#include "lib/cluster/policies.hpp"
#include "lib/cluster/summary.hpp"
#include "lib/core/error.hpp"
#include "tests/unit/cluster/random_trace.hpp"
#include "tests/unit/cluster/reference.hpp"
#include "tests/unit/cluster/reference_wfs.hpp"
#include "tests/unit/cluster/watched.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

namespace tpx {
namespace {

using test::random_jobs;
using test::simple_cluster;

SimulationResults play(std::string_view policy, const Cluster& cluster, const std::vector<TraceJob>& jobs,
                       const SimulationRules& rules = {}) {
    return Simulation{cluster, jobs, rules}.run(*find_policy(policy)->make());
}

// The law of laws: no host ever gives more than it has, and what is said to be held adds up.
void check_laws(const Cluster& cluster, const std::vector<TraceJob>& jobs, const SimulationResults& results) {
    std::map<std::pair<Time, int>, int> changes;  // of GPUs in use, by time and host
    std::vector<double> held(jobs.size()), trained(jobs.size());
    Time last = 0;
    for (const JobSegment& segment : results.segments) {
        REQUIRE(segment.begin < segment.end);
        CHECK(segment.begin >= jobs[segment.job].arrival);
        CHECK(segment.end >= last);
        last = segment.end;
        held[segment.job] += static_cast<double>(segment.end - segment.begin) * segment.grant.gpus();
        if (segment.training)
            trained[segment.job] += static_cast<double>(segment.end - segment.begin) * segment.grant.gpus();
        for (const GpuShare& part : segment.grant.parts) {
            changes[{segment.begin, part.host}] += part.gpus;
            changes[{segment.end, part.host}] -= part.gpus;
        }
    }
    std::vector<int> used(cluster.hosts.size());
    for (const auto& [key, change] : changes) {
        used[key.second] += change;
        CHECK(used[key.second] >= 0);
        CHECK(used[key.second] <= cluster.hosts[key.second].gpus);
    }
    for (std::size_t id = 0; id < jobs.size(); ++id) {
        const JobResult& is = results.jobs[id];
        CHECK(is.arrival <= is.start);
        CHECK(is.start <= is.finish);
        CHECK(is.finish < never);
        CHECK(is.held == doctest::Approx(held[id]).epsilon(1e-12));
        CHECK(is.trained == doctest::Approx(trained[id]).epsilon(1e-12));
        CHECK(is.trained <= is.held);
    }
}

TEST_CASE("policies of whole jobs agree with a simulator that goes second by second") {
    std::mt19937 random{1};
    for (int round = 0; round < 40; ++round) {
        const int hosts = 1 + static_cast<int>(random() % 5), each = 1 << random() % 4;
        std::vector<TraceJob> jobs = random_jobs(random, 25, hosts * each);
        for (TraceJob& job : jobs) job.guaranteed = random() % 2;
        for (const std::string_view policy :
             {"fifo", "fifo-backfill", "srtf", "priority", "las", "synergy", "antman"}) {
            CAPTURE(policy);
            CAPTURE(round);
            const SimulationResults results = play(policy, simple_cluster(hosts, each), jobs);
            const auto fates = test::Reference{jobs, hosts * each, policy}.play();
            for (std::size_t id = 0; id < jobs.size(); ++id) {
                CAPTURE(id);
                CHECK(results.jobs[id].start == fates[id].start * second);
                CHECK(results.jobs[id].finish == fates[id].finish * second);
            }
        }
    }
}

TEST_CASE("elastic fair sharing agrees with one that looks at all jobs at every event") {
    std::mt19937 random{2};
    for (int round = 0; round < 40; ++round) {
        const int gpus = 1 << random() % 6;
        const std::vector<TraceJob> jobs = random_jobs(random, 25, gpus);
        CAPTURE(round);
        const SimulationResults results = play("wfs", simple_cluster(1, gpus), jobs);
        const auto fates = test::ReferenceWfs{jobs, gpus}.play();
        for (std::size_t id = 0; id < jobs.size(); ++id) {
            CAPTURE(id);
            CHECK(std::abs(seconds_of(results.jobs[id].start) - fates[id].start) < 1e-3);
            CHECK(std::abs(seconds_of(results.jobs[id].finish) - fates[id].finish) < 1e-3);
        }
    }
}

// Several kinds, cores and memory that run out, tenants, delays, rounds, hosts that fail.
struct Hard {
    Cluster cluster{{"A", "B"}, {}, {{"t", 6}, {"u", 3}}};
    std::vector<TraceJob> jobs;
    SimulationRules rules;

    explicit Hard(std::mt19937& random) {
        for (int i = 0; i < 4; ++i) cluster.hosts.push_back({fmt::format("h{}", i), i % 2, 4, i == 3 ? 4.0 : 16.0, 64});
        jobs = random_jobs(random, 40, 4);
        for (TraceJob& job : jobs) {
            job.least = 1 + static_cast<int>(random() % unsigned(job.gpus));
            job.most = job.gpus + static_cast<int>(random() % 4);
            job.kind = static_cast<int>(random() % 3) - 1;
            job.tenant = job.gpus <= 2 ? static_cast<int>(random() % 3) - 1 : any;
            job.guaranteed = random() % 4 > 0;
            job.cpus = static_cast<double>(random() % 4);
            job.memory = static_cast<double>(random() % 16);
        }
        rules.quantum = random() % 2 ? 0 : 60 * second;
        rules.delays.start = Time(random() % 90) * second;
        rules.delays.grow = 5 * second;
        rules.delays.shrink = Time(random() % 2) * second;
        rules.delays.release = Time(random() % 2) * 10 * second;
        rules.delays.background = random() % 2;
        rules.delays.change = 40 * second;
        rules.checkpoint = Time(random() % 2) * 600 * second;
        for (int i = 0; i < 6; ++i) {
            const Time begin = Time(random() % 20000) * second;
            rules.outages.push_back(
                {static_cast<int>(random() % 4), begin, begin + Time(1 + random() % 3000) * second});
        }
        rules.segments = true;
    }
};

TEST_CASE("nothing is used twice and nobody is forgotten, whatever happens") {
    std::mt19937 random{2};
    for (int round = 0; round < 60; ++round) {
        const Hard hard{random};
        for (const PolicyInfo& policy : policies()) {
            CAPTURE(policy.name);
            CAPTURE(round);
            const SimulationResults results = play(policy.name, hard.cluster, hard.jobs, hard.rules);
            check_laws(hard.cluster, hard.jobs, results);
            for (std::size_t id = 0; id < hard.jobs.size(); ++id)  // work conserved, but for what failures cost
                CHECK(results.jobs[id].trained >= hard.jobs[id].work * hard.jobs[id].gpus * (1 - 1e-12));
        }
    }
}

TEST_CASE("S7: a running job never has fewer or more GPUs than it may, under any policy") {
    std::mt19937 random{5};
    for (int round = 0; round < 12; ++round) {
        Hard hard{random};
        if (round % 2 == 0) hard.rules = {};
        for (const PolicyInfo& policy : policies()) {
            CAPTURE(policy.name);
            CAPTURE(round);
            test::play_watched(policy.name, hard.cluster, hard.jobs, hard.rules, [&](const Simulation& simulation) {
                for (const int id : simulation.running()) {
                    CHECK(simulation.grant(id).gpus() >= hard.jobs[id].least);
                    CHECK(simulation.grant(id).gpus() <= hard.jobs[id].most);
                }
            });
        }
    }
}

// Jobs with limits of one number are given that number by policies that change jobs, too, and nothing is changed.
TEST_CASE("S7: jobs that are not elastic are never changed") {
    std::mt19937 random{9};
    for (int round = 0; round < 5; ++round) {
        std::vector<TraceJob> jobs = random_jobs(random, 40, 16);
        for (TraceJob& job : jobs) job.least = job.most = job.gpus;
        for (const PolicyInfo& policy : policies()) {
            CAPTURE(policy.name);
            const SimulationResults results = play(policy.name, simple_cluster(4, 4), jobs);
            for (const JobResult& job : results.jobs) CHECK(job.changes == 0);
        }
    }
}

TEST_CASE("quotas of tenants are kept by every policy") {
    std::mt19937 random{3};
    for (int round = 0; round < 20; ++round) {
        const Hard hard{random};
        for (const PolicyInfo& policy : policies()) {
            const SimulationResults results = play(policy.name, hard.cluster, hard.jobs, hard.rules);
            std::map<Time, std::array<int, 2>> changes;
            for (const JobSegment& segment : results.segments) {
                const TraceJob& job = hard.jobs[segment.job];
                if (job.tenant == any || !job.guaranteed || !segment.training) continue;
                changes[segment.begin][job.tenant] += segment.grant.gpus();
                changes[segment.end][job.tenant] -= segment.grant.gpus();
            }
            std::array<int, 2> used{};
            for (const auto& [time, change] : changes) {
                for (const int tenant : {0, 1}) {
                    used[tenant] += change[tenant];
                    CHECK(used[tenant] <= hard.cluster.tenants[tenant].quota);
                }
            }
        }
    }
}

TEST_CASE("the same arguments give the same results") {
    std::mt19937 random{4};
    const Hard hard{random};
    for (const PolicyInfo& policy : policies()) {
        const SimulationResults one = play(policy.name, hard.cluster, hard.jobs, hard.rules);
        const SimulationResults other = play(policy.name, hard.cluster, hard.jobs, hard.rules);
        REQUIRE(one.segments.size() == other.segments.size());
        for (std::size_t i = 0; i < one.segments.size(); ++i) {
            CHECK(one.segments[i].begin == other.segments[i].begin);
            CHECK(one.segments[i].grant == other.segments[i].grant);
        }
    }
}

TEST_CASE("a failed host sets jobs back to their last checkpoint") {
    std::vector<TraceJob> jobs(1);
    jobs[0].work = 1000e6;
    jobs[0].speed = std::make_shared<PowerSpeed>(1, 1);
    SimulationRules rules;
    rules.checkpoint = 300 * second;
    rules.delays.single = 10 * second;
    rules.outages = {{0, 500 * second, 600 * second}};
    // 10 s of start, 490 s of training of which 190 s are lost, 100 s down, 10 s of start, 700 s of training.
    const SimulationResults results = play("fifo", simple_cluster(1, 1), jobs, rules);
    CHECK(results.jobs[0].finish == (600 + 10 + 700) * second);
    CHECK(results.jobs[0].stops == 1);
}

TEST_CASE("Synergy gives a job fewer cores where it fits only so, at the speed that they give it") {
    Cluster cluster = simple_cluster(1, 4);
    cluster.hosts[0].cpus = 16;
    std::vector<TraceJob> jobs(2);
    for (TraceJob& job : jobs) {
        job.gpus = job.most = 2;
        job.cpus = 6;
        job.cpu_scaling = 0.5;
        job.work = 90e6;
        job.speed = std::make_shared<PowerSpeed>(2, 1);
    }
    // The first has 12 of 16 cores; the second fits with 4 in place of 6 for each GPU only once it is done.
    SimulationResults results = play("synergy", cluster, jobs);
    CHECK(results.jobs[1].start == 90 * second);
    cluster.hosts[0].cpus = 20;  // 5 for each GPU, but 8 are left: 4 each
    results = play("synergy", cluster, jobs);
    CHECK(results.jobs[1].start == 90 * second);
    jobs[0].cpus = 5;
    results = play("synergy", cluster, jobs);
    CHECK(results.jobs[1].start == 0);
    CHECK(seconds_of(results.jobs[1].finish) == doctest::Approx(90 / std::sqrt(5.0 / 6)).epsilon(1e-6));
    CHECK(play("fifo", cluster, jobs).jobs[1].start == 90 * second);
}

TEST_CASE("S9: jobs that nothing makes go on are unfinished, under every policy, and the others finish") {
    std::vector<TraceJob> jobs(2);
    for (TraceJob& job : jobs) {
        job.gpus = job.least = job.most = 2;
        job.work = 100e6;
        job.speed = std::make_shared<PowerSpeed>(2, 1);
    }
    jobs[1].arrival = 400 * second;
    SimulationRules rules;
    rules.outages = {{0, 450 * second, never}};
    for (const PolicyInfo& policy : policies()) {
        CAPTURE(policy.name);
        const Cluster cluster = simple_cluster(1, 2);
        const SimulationResults results = play(policy.name, cluster, jobs, rules);
        CHECK(results.jobs[0].finish != never);
        CHECK(results.jobs[1].finish == never);
        const SimulationSummary summary = summarize(cluster, jobs, results);
        CHECK(summary.unfinished == 1);
        CHECK(summary.mean_jct == doctest::Approx(seconds_of(results.jobs[0].finish)));
    }
}

TEST_CASE("S9: jobs that can train nowhere, or not with what they have, are unfinished") {
    std::vector<TraceJob> jobs(1);
    jobs[0].gpus = jobs[0].most = 2;
    jobs[0].work = 1e6;
    jobs[0].speed = std::make_shared<PowerSpeed>(2, 1);
    CHECK(play("fifo", simple_cluster(1, 1), jobs).jobs[0].finish == never);
    jobs[0].speed = std::make_shared<TableSpeed>();
    CHECK(play("fifo", simple_cluster(1, 2), jobs).jobs[0].finish == never);
}

// Sia asks to be called every minute: 1,000 calls are less than the 20 hours of this outage.
TEST_CASE("S9: a policy that is called again and again waits for the end of a long outage") {
    std::vector<TraceJob> jobs(1);
    jobs[0].work = 100e6;
    jobs[0].speed = std::make_shared<PowerSpeed>(1, 1);
    SimulationRules rules;
    rules.outages = {{0, 0, 72000 * second}};
    CHECK(play("sia", simple_cluster(1, 1), jobs, rules).jobs[0].finish == 72100 * second);
}

TEST_CASE("S9: times are right to the microsecond for jobs of 31 years, too") {
    std::vector<TraceJob> jobs(1);
    for (const double seconds : {1e9, 999999999.0, 1e6, 1.0}) {
        jobs[0].work = seconds * 1e6;
        for (const double rate : {1.0, 0.5, 3.0}) {
            auto speed = std::make_shared<TableSpeed>();
            speed->add(any, 1, rate);
            jobs[0].speed = speed;
            CHECK(play("fifo", simple_cluster(1, 1), jobs).jobs[0].finish ==
                  std::llround(std::ceil(jobs[0].work / rate)));
        }
    }
}

TEST_CASE("GPUs that start or are about to be given back are held and do not train") {
    std::vector<TraceJob> jobs(1);
    jobs[0].work = 80e6;
    jobs[0].speed = std::make_shared<PowerSpeed>(1, 1);
    SimulationRules rules;
    rules.delays.single = 15 * second;
    rules.delays.release = 5 * second;
    const Cluster cluster = simple_cluster(1, 1);
    const SimulationResults results = play("fifo", cluster, jobs, rules);
    const SimulationSummary summary = summarize(cluster, jobs, results);
    CHECK(results.jobs[0].finish == 95 * second);
    CHECK(summary.makespan == 100);
    CHECK(summary.held == 1);
    CHECK(summary.trained == 0.8);
}

}  // namespace
}  // namespace tpx
