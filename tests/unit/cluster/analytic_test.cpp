// SPDX-License-Identifier: Apache-2.0
// Queues whose results are known from theory, or can be computed by hand.
#include "lib/cluster/policies.hpp"
#include "lib/cluster/simulation.hpp"
#include "tests/unit/cluster/random_trace.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

namespace tpx {
namespace {

using test::simple_cluster;

SimulationResults replayed(std::string_view policy, const Cluster& cluster, const std::vector<TraceJob>& jobs,
                           const SimulationRules& rules = {}) {
    return Simulation{cluster, jobs, rules}.run(*find_policy(policy)->make());
}

// Times are in seconds; with other numbers of GPUs the job is as fast as they are many.
TraceJob timed_job(const std::string& name, double arrival, int gpus, double seconds) {
    TraceJob job;
    job.name = name;
    job.arrival = time_of(arrival);
    job.gpus = job.least = job.most = gpus;
    job.work = seconds * 1e6;
    job.speed = std::make_shared<PowerSpeed>(gpus, 1);
    return job;
}

// Poisson arrivals and exponential durations, in whole microseconds, of one GPU each.
std::vector<TraceJob> markov_jobs(int count, double arrivals_per_second, double mean_seconds, unsigned seed) {
    std::mt19937_64 random{seed};
    std::exponential_distribution<double> gap{arrivals_per_second}, duration{1 / mean_seconds};
    std::vector<TraceJob> jobs;
    double now = 0;
    for (int i = 0; i < count; ++i) {
        now += gap(random);
        TraceJob job = timed_job(fmt::format("j{}", i), now, 1, 0);
        job.work = std::round(duration(random) * 1e6);
        jobs.push_back(std::move(job));
    }
    return jobs;
}

double mean_wait(const SimulationResults& results) {
    double sum = 0;
    for (const JobResult& job : results.jobs) sum += seconds_of(job.start - job.arrival);
    return sum / static_cast<double>(results.jobs.size());
}

// The mean wait of an M/M/c queue by Erlang's C formula, in units of the mean duration.
double erlang_wait(int servers, double load) {
    double term = 1, sum = 1;
    for (int k = 1; k < servers; ++k) sum += term *= load / k;
    const double last = term * load / servers * servers / (servers - load);
    return last / (sum + last) / (servers - load);
}

}  // namespace

TEST_CASE("one server: each job of FIFO waits as long as Lindley's recursion says, to the microsecond") {
    for (const double load : {0.5, 0.9, 1.2}) {
        const std::vector<TraceJob> jobs = markov_jobs(5000, load / 100, 100, 11);
        for (const char* policy : {"fifo", "fifo-backfill", "priority", "synergy"}) {
            const SimulationResults results = replayed(policy, simple_cluster(1, 1), jobs);
            Time wait = 0;
            for (std::size_t i = 0; i < jobs.size(); ++i) {
                if (i > 0) {
                    const auto service = static_cast<Time>(jobs[i - 1].work);
                    wait = std::max(Time{0}, wait + service - (jobs[i].arrival - jobs[i - 1].arrival));
                }
                REQUIRE(results.jobs[i].start == jobs[i].arrival + wait);
                REQUIRE(results.jobs[i].finish == results.jobs[i].start + static_cast<Time>(jobs[i].work));
            }
        }
    }
}

TEST_CASE("several servers: FIFO starts each job when a server is free, and M/M/c waits as Erlang's formula says") {
    for (const auto& [servers, load] : {std::pair{1, 0.5}, {2, 1.2}, {8, 6.4}}) {
        double wait = 0;
        for (const unsigned seed : {1, 2, 3, 4}) {
            const std::vector<TraceJob> jobs = markov_jobs(100'000, load / 10, 10, seed);
            const SimulationResults results = replayed("fifo", simple_cluster(1, servers), jobs);
            std::multiset<Time> ends;  // of the servers' last jobs
            for (int k = 0; k < servers; ++k) ends.insert(0);
            for (std::size_t i = 0; i < jobs.size(); ++i) {
                const Time start = std::max(jobs[i].arrival, *ends.begin());
                REQUIRE(results.jobs[i].start == start);
                ends.erase(ends.begin());
                ends.insert(start + static_cast<Time>(jobs[i].work));
            }
            wait += mean_wait(results) / 4;
        }
        CAPTURE(servers);
        CHECK(wait == doctest::Approx(10 * erlang_wait(servers, load)).epsilon(0.06));
    }
    CHECK(erlang_wait(1, 0.5) == doctest::Approx(1));  // rho / (1 - rho)
    CHECK(erlang_wait(8, 6.4) == doctest::Approx(0.286).epsilon(0.001));
}

TEST_CASE(
    "one server: SRPT finishes each job when a reference finishes it, and its mean is the least of all policies") {
    const std::vector<TraceJob> jobs = markov_jobs(3000, 0.9 / 100, 100, 3);
    std::vector<Time> finish(jobs.size());
    std::map<std::pair<Time, std::size_t>, bool> left;  // by remaining time
    Time now = 0;
    const auto work_until = [&](Time end) {
        while (!left.empty() && now < end) {
            const auto [remaining, id] = left.begin()->first;
            const Time time = std::min(remaining, end - now);
            left.erase(left.begin());
            now += time;
            time == remaining ? void(finish[id] = now) : void(left[{remaining - time, id}] = true);
        }
        now = std::max(now, end);
    };
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        work_until(jobs[i].arrival);
        left[{static_cast<Time>(jobs[i].work), i}] = true;
    }
    work_until(never / 2);
    const SimulationResults results = replayed("srtf", simple_cluster(1, 1), jobs);
    for (std::size_t i = 0; i < jobs.size(); ++i) REQUIRE(results.jobs[i].finish == finish[i]);
    const auto sum_of = [&](const SimulationResults& all) {
        double sum = 0;
        for (const JobResult& job : all.jobs) sum += seconds_of(job.finish - job.arrival);
        return sum;
    };
    for (const char* policy : {"fifo", "las", "wfs"})
        CHECK(sum_of(results) <= sum_of(replayed(policy, simple_cluster(1, 1), jobs)));
}

TEST_CASE("where every start takes as long, jobs start as if each were longer by that") {
    std::mt19937_64 random{29};
    const auto number = [&](int low, int high) { return std::uniform_int_distribution{low, high}(random); };
    for (int round = 0; round < 60; ++round) {
        CAPTURE(round);
        std::vector<TraceJob> jobs;
        int now = 0;
        for (int i = 0; i < 40; ++i) {
            now += number(0, 12);
            jobs.push_back(timed_job(fmt::format("j{}", i), now, number(1, 8), number(1, 90)));
        }
        const int seconds = number(1, 30);
        SimulationRules rules;
        rules.delays.start = rules.delays.single = time_of(seconds);
        std::vector<TraceJob> longer = jobs;
        for (TraceJob& job : longer) job.work += seconds * 1e6;
        for (const char* policy : {"fifo", "fifo-backfill", "priority"}) {
            CAPTURE(policy);
            const SimulationResults results = replayed(policy, simple_cluster(1, 8), jobs, rules);
            const SimulationResults expected = replayed(policy, simple_cluster(1, 8), longer);
            for (std::size_t i = 0; i < jobs.size(); ++i) {
                CHECK(results.jobs[i].start == expected.jobs[i].start);
                CHECK(results.jobs[i].finish == expected.jobs[i].finish);
            }
        }
    }
}

TEST_CASE("EASY backfilling: a job goes ahead if it ends before the first starts, or needs none of its GPUs") {
    const std::vector<TraceJob> jobs{timed_job("running", 0, 6, 100), timed_job("first", 1, 6, 50),
                                     timed_job("ends in time", 2, 2, 98), timed_job("too long", 3, 2, 200),
                                     timed_job("spare", 100, 2, 300)};
    const SimulationResults results = replayed("fifo-backfill", simple_cluster(1, 8), jobs);
    const auto starts = [&](std::size_t i) { return seconds_of(results.jobs[i].start); };
    CHECK(starts(0) == 0);
    CHECK(starts(1) == 100);  // as promised
    CHECK(starts(2) == 2);    // ends at 100
    CHECK(starts(3) == 100);  // beside the first, in order
    CHECK(starts(4) == 150);
    // On 7 GPUs, the first of 6 leaves one: a long job of one GPU uses it, one of two GPUs would delay the first.
    const std::vector<TraceJob> spare{timed_job("running", 0, 5, 100), timed_job("first", 1, 6, 50),
                                      timed_job("two", 2, 2, 500), timed_job("one", 3, 1, 500)};
    const SimulationResults beside = replayed("fifo-backfill", simple_cluster(1, 7), spare);
    CHECK(seconds_of(beside.jobs[1].start) == 100);
    CHECK(seconds_of(beside.jobs[2].start) == 150);
    CHECK(seconds_of(beside.jobs[3].start) == 3);
}

TEST_CASE("two elastic jobs share with cost: the second start shrinks the first, and each change pauses it") {
    std::vector<TraceJob> jobs{timed_job("a", 0, 8, 1000), timed_job("b", 200, 8, 500)};
    for (TraceJob& job : jobs) job.least = 1;
    SimulationRules rules;
    rules.delays.start = rules.delays.single = rules.delays.change = 10 * second;
    const SimulationResults results = replayed("wfs", simple_cluster(1, 8), jobs, rules);
    // a: starts by 10, has done 190 by 200, pauses to 210, then at half speed; b starts on 4 GPUs at 210 at the latest
    // and needs 1000 s there. a has 810 left at 210, ends at 1830 unless b is done before: b trains from 210 to 1210;
    // a has done 500 by then, has 310 left, grows for 10 s and ends at 1530.
    CHECK(seconds_of(results.jobs[1].start) == 200);
    CHECK(seconds_of(results.jobs[1].finish) == 1210);
    CHECK(seconds_of(results.jobs[0].finish) == 1530);
}

TEST_CASE("fair sharing does not depend on the order in which a trace lists jobs that come together") {
    std::mt19937 random{21};
    for (int round = 0; round < 40; ++round) {
        std::vector<TraceJob> jobs;
        double arrival = 0;
        for (int i = 0; i < 24; ++i) {
            if (random() % 3 == 0) arrival += static_cast<double>(random() % 400);
            TraceJob job = timed_job(fmt::format("job-{}", i), arrival, 1 << random() % 4,
                                     60 + static_cast<double>(random() % 2000));
            job.least = 1;
            job.priority = std::vector<double>{1, 5, 10}[random() % 3];
            jobs.push_back(std::move(job));
        }
        SimulationRules rules;
        if (round % 2 == 1) {
            rules.delays.background = true;
            rules.delays.start = 80 * second, rules.delays.change = 70 * second, rules.delays.release = 10 * second;
        }
        std::map<std::string, Time> finish;
        for (int order = 0; order < 4; ++order) {
            const SimulationResults results = replayed("wfs", simple_cluster(2, 4), jobs, rules);
            for (std::size_t i = 0; i < jobs.size(); ++i) {
                const auto [known, is_new] = finish.try_emplace(jobs[i].name, results.jobs[i].finish);
                CHECK(known->second == results.jobs[i].finish);
            }
            std::ranges::shuffle(jobs, random);
            std::ranges::stable_sort(jobs, {}, &TraceJob::arrival);
        }
    }
}

TEST_CASE("gavel: two jobs of 720 s take turns on one GPU, and each ends when its last step does") {
    const std::vector<TraceJob> jobs{timed_job("a", 0, 1, 720), timed_job("b", 0, 1, 720), timed_job("empty", 0, 1, 0)};
    const SimulationResults results = replayed("gavel", simple_cluster(1, 1), {jobs[0], jobs[1]});
    CHECK(seconds_of(results.jobs[0].finish) == 1080);
    CHECK(seconds_of(results.jobs[1].finish) == 1440);
    CHECK(seconds_of(replayed("gavel", simple_cluster(1, 1), {jobs[2]}).jobs[0].finish) == 0);
    const SimulationResults simulator = replayed("gavel-virtualflow", simple_cluster(1, 1), {jobs[0], jobs[1]});
    CHECK(seconds_of(simulator.jobs[0].finish) == 1440);
}

}  // namespace tpx
