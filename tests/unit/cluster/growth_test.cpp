// SPDX-License-Identifier: Apache-2.0
// S6: Rubick gives free GPUs to the jobs that gain most, at one decision, as far as the limits of the jobs allow.
#include "lib/cluster/growth.hpp"

#include "formats/files/trace/cluster_file.hpp"
#include "formats/files/trace/trace_file.hpp"
#include "lib/cluster/sensitivity.hpp"
#include "tests/unit/cluster/random_trace.hpp"
#include "tests/unit/cluster/watched.hpp"

#include <doctest/doctest.h>

#include <random>

namespace tpx {
namespace {

int below(std::mt19937& random, unsigned bound) { return static_cast<int>(random() % bound); }

using Options = std::vector<std::vector<Growth>>;

// The largest sum of gains of the jobs from `job` on: every combination is tried.
double best_sum(const Options& options, std::size_t job, int free) {
    if (job == options.size()) return 0;
    double best = best_sum(options, job + 1, free);
    for (const Growth& way : options[job])
        if (way.more <= free) best = std::max(best, way.gain + best_sum(options, job + 1, free - way.more));
    return best;
}

TEST_CASE("S6: the growths that are chosen bring as much as the best of all combinations") {
    std::mt19937 random{11};
    for (int round = 0; round < 500; ++round) {
        Options options(random() % 6);
        for (auto& ways : options)
            for (int way = below(random, 5); way > 0; --way)
                ways.push_back({1 + below(random, 5), 1.0 + below(random, 9)});
        const int free = below(random, 10);
        const std::vector<int> chosen = best_growths(options, free);
        double sum = 0;
        int used = 0;
        for (std::size_t job = 0; job < options.size(); ++job) {
            if (chosen[job] < 0) continue;
            sum += options[job][static_cast<std::size_t>(chosen[job])].gain;
            used += options[job][static_cast<std::size_t>(chosen[job])].more;
        }
        CHECK(used <= free);
        CHECK(sum == best_sum(options, 0, free));
    }
    CHECK(best_growths({}, 4).empty());
    CHECK(best_growths(Options{{{4, 1}, {1, 1}}}, 4) == std::vector<int>{1});  // of equal gains the smaller growth
}

// Rates that rise by at least 2 % or not at all, as irregular as measured ones, for 1 to `most` GPUs.
std::shared_ptr<TableSpeed> random_speed(std::mt19937& random, int most) {
    auto speed = std::make_shared<TableSpeed>();
    double rate = 1;
    for (int gpus = 1; gpus <= most; ++gpus) {
        speed->add(any, gpus, rate);
        rate += rate * below(random, 3) * (0.02 + 0.01 * below(random, 60));
    }
    return speed;
}

TraceJob random_job(std::mt19937& random, int gpus) {
    TraceJob job;
    const auto pick = [&](int from, int to) { return from + static_cast<int>(random() % unsigned(to - from + 1)); };
    job.gpus = pick(1, gpus);
    job.least = pick(1, job.gpus);
    job.most = pick(job.gpus, gpus);
    job.work = 1e9 * pick(1, 50);
    job.speed = random_speed(random, gpus);
    job.guaranteed = random() % 3 > 0;
    return job;
}

// What a job with `gpus` GPUs brings, in units of what it asked for.
double worth(const TraceJob& job, int gpus) {
    const auto& speed = dynamic_cast<const TableSpeed&>(*job.speed);
    return speed.rate(0, gpus) / speed.rate(0, job.gpus);
}

// The fewest GPUs that a guaranteed job must have.
int need_of(const TraceJob& job) {
    for (int gpus = job.least; gpus < job.gpus; ++gpus)
        if (worth(job, gpus) >= 1) return gpus;
    return job.gpus;
}

TEST_CASE("S6: one and two jobs have, from the first decision on, what brings most of all that they could have") {
    std::mt19937 random{12};
    for (int round = 0; round < 1000; ++round) {
        const int gpus = 1 + below(random, 12);
        std::vector<TraceJob> jobs(1 + random() % 2);
        for (TraceJob& job : jobs) job = random_job(random, gpus), job.guaranteed = true;
        if (jobs.size() == 2 && need_of(jobs[0]) + need_of(jobs[1]) > gpus) jobs.pop_back();
        double best = 0;
        for (int first = need_of(jobs[0]); first <= std::min(gpus, jobs[0].most); ++first) {
            if (jobs.size() == 1) best = std::max(best, worth(jobs[0], first));
            for (int second = jobs.size() == 2 ? need_of(jobs[1]) : gpus + 1;
                 second <= std::min(gpus - first, jobs.back().most); ++second)
                best = std::max(best, worth(jobs[0], first) + worth(jobs[1], second));
        }
        bool first_decision = true;
        test::play_watched("rubick", test::simple_cluster(1, gpus), jobs, {}, [&](const Simulation& simulation) {
            if (!std::exchange(first_decision, false)) return;
            double sum = 0;
            for (std::size_t id = 0; id < jobs.size(); ++id)
                sum += worth(jobs[id], simulation.grant(static_cast<int>(id)).gpus());
            CAPTURE(round);
            CHECK(sum == doctest::Approx(best).epsilon(1e-9));
        });
    }
}

TEST_CASE("S6: after no decision of Rubick could a free GPU make a running job faster within its limits") {
    std::mt19937 random{13};
    for (int round = 0; round < 150; ++round) {
        const Cluster cluster = test::simple_cluster(1 + below(random, 4), 1 + below(random, 6));
        std::vector<TraceJob> jobs;
        for (unsigned i = 0; i < 8; ++i) {
            jobs.push_back(random_job(random, cluster.gpus()));
            jobs.back().name = fmt::format("j{}", i);
            jobs.back().arrival = i == 0 ? 0 : jobs[i - 1].arrival + Time(random() % 3 * 400) * second;
        }
        for (const std::string_view policy : {"rubick", "rubick-r"})
            test::play_watched(policy, cluster, jobs, {}, [&](const Simulation& simulation) {
                for (const int id : simulation.running()) {
                    const TraceJob& job = jobs[static_cast<std::size_t>(id)];
                    const Grant& held = simulation.grant(id);
                    const double now = job.speed->rate(held, cluster);
                    const int limit = std::min(job.most - held.gpus(), simulation.pool().free());
                    for (int more = 1; more <= limit; ++more) {
                        const auto grown = simulation.pool().place_more(job, held, more);
                        REQUIRE(grown);
                        CAPTURE(round);
                        CHECK(job.speed->rate(*grown, cluster) <= now * min_gain);
                    }
                }
            });
    }
}

TEST_CASE("S6: a job alone on a host grows to its useful maximum at once, whatever it asked for") {
    const Cluster cluster = formats::read_cluster("1x8");
    const formats::JobSpeeds speeds = formats::read_speeds("testdata/profile/rubick/gpt2.toml", cluster);
    const auto jobs = formats::parse_trace("arrival,gpus,steps,model\n0,1,10000,gpt2\n", "t", cluster, speeds).jobs;
    const auto alone = [&](const Simulation& simulation) {
        for (const int id : simulation.running()) CHECK(simulation.grant(id).gpus() == 8);
    };
    const SimulationResults results = test::play_watched("rubick", cluster, jobs, {}, alone);
    CHECK(results.jobs[0].changes == 0);
}

// 100 s of changes are 3 % of 3,334 s.
TEST_CASE("S6: a job grows as soon as the change is worth it, though nothing else happens") {
    std::vector<TraceJob> jobs(2);
    for (TraceJob& job : jobs) {
        job.most = 8;
        job.gpus = 4;
        job.speed = std::make_shared<PowerSpeed>(4, 1);
    }
    jobs[0].work = 50000e6;
    jobs[1].work = 1000e6;
    SimulationRules rules;
    rules.delays.change = 100 * second;
    rules.segments = true;
    Time grown = never;
    test::play_watched("rubick", test::simple_cluster(1, 8), jobs, rules, [&](const Simulation& simulation) {
        if (grown == never && simulation.grant(0).gpus() == 8) grown = simulation.now();
    });
    CHECK(grown == doctest::Approx(100 / 0.03 * second).epsilon(1e-6));
}

}  // namespace
}  // namespace tpx
