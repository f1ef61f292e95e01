// SPDX-License-Identifier: Apache-2.0
// Policies that keep their queues from event to event must make the same decisions as policies that visit every job at
// every event.
#include "lib/cluster/backfill_queue.hpp"
#include "lib/cluster/job_order.hpp"
#include "lib/cluster/policies.hpp"
#include "lib/cluster/simulation.hpp"
#include "tests/unit/cluster/random_trace.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

namespace tpx {
namespace {

// Runs all jobs in the order of their remaining work, or of their attained service.
class EveryJobByKey final : public Policy {
public:
    explicit EveryJobByKey(bool by_service) : by_service_{by_service} {}

    void schedule(Simulation& simulation) override {
        std::vector<std::pair<double, int>> keyed;
        for (const int id : all_jobs(simulation)) keyed.emplace_back(key(simulation, id), id);
        std::ranges::sort(keyed);
        std::vector<int> order;
        for (const auto& [is, id] : keyed) order.push_back(id);
        run_in_order(simulation, order);
        if (by_service_ && !simulation.waiting().empty()) wake_at_next_level(simulation);
    }

private:
    static constexpr double hour = 3600e6;
    static constexpr std::array<double, 4> levels{hour, 8 * hour, 64 * hour, 512 * hour};

    static auto above(double attained) { return std::ranges::upper_bound(levels, attained); }

    double key(const Simulation& simulation, int id) const {
        if (!by_service_) return simulation.remaining(id);
        return static_cast<double>(above(simulation.attained(id)) - levels.begin());
    }

    static void wake_at_next_level(Simulation& simulation) {
        Time next = never;
        for (const int id : simulation.running()) {
            const double attained = simulation.attained(id);
            if (above(attained) == levels.end()) continue;
            const double time = std::ceil((*above(attained) - attained) / simulation.grant(id).gpus());
            next = std::min(next, simulation.now() + std::max(Time{1}, static_cast<Time>(time)));
        }
        if (next != never) simulation.wake(next);
    }

    bool by_service_;
};

// EASY backfilling that visits every waiting job.
class EveryJobBackfilled final : public Policy {
public:
    void schedule(Simulation& simulation) override {
        const std::vector<int> waiting = simulation.waiting();
        const std::size_t first = start_in_order(simulation, waiting);
        if (first == waiting.size()) return;
        const TraceJob& head = simulation.job(waiting[first]);
        auto [time, pool] = promise_to(simulation, head);
        for (std::size_t i = first + 1; i < waiting.size(); ++i) {
            const TraceJob& job = simulation.job(waiting[i]);
            auto grant = simulation.place(waiting[i], job.gpus);
            if (!grant) continue;
            if (simulation.now() + simulation.time_needed(waiting[i], *grant) > time) {
                GpuPool rest = pool;
                rest.take(job, grant->parts);
                if (time != never && !rest.place(head, head.gpus)) continue;
                pool = rest;
            }
            simulation.start(waiting[i], std::move(*grant));
        }
    }

private:
    static std::pair<Time, GpuPool> promise_to(const Simulation& simulation, const TraceJob& head) {
        std::pair<Time, GpuPool> promise{never, simulation.pool_after_releases()};
        auto& [time, pool] = promise;
        if (pool.place(head, head.gpus)) time = simulation.now();
        std::vector<std::pair<Time, int>> ends;
        for (const int id : simulation.running()) ends.emplace_back(simulation.expected_finish(id), id);
        std::ranges::sort(ends);
        for (const auto& [end, id] : ends) {
            if (end > time) break;
            pool.give(simulation.needs(id), simulation.grant(id).parts);
            if (time == never && pool.place(head, head.gpus)) time = end;
        }
        return promise;
    }
};

bool same(const SimulationResults& a, const SimulationResults& b) {
    return std::ranges::equal(a.jobs, b.jobs, [](const JobResult& one, const JobResult& other) {
        return one.start == other.start && one.finish == other.finish && one.stops == other.stops &&
               one.held == other.held;
    });
}

struct Case {
    std::vector<TraceJob> jobs;
    SimulationRules rules;
};

// Jobs arrive faster than they finish, hosts fail, and GPUs are released with a delay.
Case random_case(std::mt19937& random, int trial) {
    Case is{test::random_jobs(random, 150, 8), {}};
    for (TraceJob& job : is.jobs) {
        job.arrival /= trial % 3 == 0 ? 20 : 4;
        if (trial % 4 == 1 && random() % 3 == 0) job.cpus = 1 + static_cast<double>(random() % 3);
        if (trial % 4 == 2 && random() % 2 == 0)
            job.tenant = static_cast<int>(random() % 2), job.guaranteed = random() % 3 > 0;
    }
    if (trial % 2 == 1) is.rules.delays.start = is.rules.delays.single = 30 * second;
    if (trial % 5 == 1) is.rules.delays.release = 10 * second;
    if (trial % 3 == 1) {
        is.rules.checkpoint = 300 * second;
        for (int n = 0; n < 10; ++n) {
            const Time begin = static_cast<Time>(random() % 20000) * second;
            is.rules.outages.push_back({static_cast<int>(random() % 4), begin, begin + 900 * second});
        }
    }
    return is;
}

TEST_CASE("policies with queues make the same decisions as policies that visit every job") {
    std::mt19937 random{77};
    for (int trial = 0; trial < 60; ++trial) {
        CAPTURE(trial);
        const Case is = random_case(random, trial);
        Cluster cluster = test::simple_cluster(4, 4);
        for (ClusterHost& host : cluster.hosts) host.cpus = 8;
        if (trial % 4 == 2) cluster.tenants = {{"a", 8}, {"b", 9}};
        const auto run = [&](Policy& policy) { return Simulation{cluster, is.jobs, is.rules}.run(policy); };
        EveryJobByKey by_time{false}, by_service{true};
        EveryJobBackfilled backfilled;
        CHECK(same(run(*find_policy("srtf")->make()), run(by_time)));
        CHECK(same(run(*find_policy("las")->make()), run(by_service)));
        CHECK(same(run(*find_policy("fifo-backfill")->make()), run(backfilled)));
    }
}

TEST_CASE("the first time within a limit is found while times change") {
    std::mt19937 random{3};
    FirstSmall numbers;
    std::vector<Time> all;
    for (int step = 0; step < 3000; ++step) {
        const Time value = random() % 4 == 0 ? never : static_cast<Time>(random() % 50);
        if (all.empty() || random() % 20 == 0) {
            all.push_back(value);
            numbers.push_back(value);
        } else {
            const std::size_t position = random() % all.size();
            all[position] = value;
            numbers.set(position, value);
        }
        const std::size_t from = random() % (all.size() + 1);
        const Time most = random() % 10 == 0 ? never - 1 : static_cast<Time>(random() % 50);
        const auto found = std::find_if(all.begin() + static_cast<std::ptrdiff_t>(from), all.end(),
                                        [&](Time is) { return is <= most; });
        REQUIRE(numbers.find(from, most) == static_cast<std::size_t>(found - all.begin()));
    }
}

}  // namespace
}  // namespace tpx
