// SPDX-License-Identifier: Apache-2.0
// Policies that believe wrong models, and correct them during a run.
#include "formats/files/profile/throughput_file.hpp"
#include "lib/cluster/model_error.hpp"
#include "lib/cluster/model_plans.hpp"
#include "tests/unit/cluster/scripted.hpp"
#include "tests/unit/cluster/watched.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

namespace tpx {
namespace {

using test::run_script;
using test::simple_cluster;

TEST_CASE("step times that are measured during a run correct wrong models") {
    const Job model = formats::job_of(formats::read_throughput_model("testdata/profile/rubick/gpt2.toml"));
    const auto right = std::make_shared<const ModelPlans>(model);
    const Cluster cluster = simple_cluster(2, 8);
    TraceJob job;
    job.speed = std::make_shared<ModelSpeed>(right, parse_execution_plan("dp=1"));
    double wrong_errors = 0, corrected_errors = 0;
    for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6}) {
        const TraceJob wrong = with_model_error(std::vector{job}, 0.5, seed)[0];
        REQUIRE(wrong.truth);
        const auto plans = possible_plans(model, 8, 8);
        const ModelPlans& believed = *dynamic_cast<const ModelSpeed&>(*wrong.speed).plans();
        const auto error = [&] {
            double sum = 0;
            for (const ExecutionPlan& plan : plans)
                sum += std::abs(std::log(believed.rate(plan, {8}) / right->rate(plan, {8})));
            return sum / static_cast<double>(plans.size());
        };
        wrong_errors += error() / 6;
        for (std::size_t i = 0; i < 8; ++i) {
            const ExecutionPlan& plan = plans[i * plans.size() / 8];
            CHECK(believed.observe(plan, {8}, 1 / right->rate(plan, {8})));
            CHECK(believed.rate(plan, {8}) == right->rate(plan, {8}));
            CHECK_FALSE(believed.observe(plan, {8}, 1));
        }
        corrected_errors += error() / 6;
    }
    MESSAGE("mean error ", wrong_errors, ", after eight measurements ", corrected_errors);
    CHECK(wrong_errors > 0.1);
    CHECK(corrected_errors < wrong_errors / 3);
}

TEST_CASE("a policy that believes a wrong model trains at the right rates, and chooses better once it has measured") {
    const Job model = formats::job_of(formats::read_throughput_model("testdata/profile/rubick/gpt2.toml"));
    const auto right = std::make_shared<const ModelPlans>(model);
    const Cluster cluster = simple_cluster(1, 8);
    std::vector<TraceJob> jobs;
    for (int i = 0; i < 6; ++i) {
        TraceJob job;
        job.name = fmt::format("j{}", i);
        job.arrival = i * 4000 * second;
        job.gpus = job.least = job.most = 8;
        job.work = 3000e6;
        job.speed = std::make_shared<ModelSpeed>(right, parse_execution_plan("dp=8"));
        jobs.push_back(std::move(job));
    }
    const int best = right->best({8});
    const double fastest = 3000 / right->rate(right->plan(best), {8});
    double wrong_times = 0, corrected_times = 0, last = 0;
    for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
        for (const bool corrects : {false, true}) {
            const std::vector<TraceJob> believed = with_model_error(jobs, 0.7, seed);
            SimulationRules rules;
            if (corrects) rules.observe = 60 * second;
            const SimulationResults results = run_script("rubick", cluster, believed, rules);
            double sum = 0;
            for (const JobResult& is : results.jobs) sum += seconds_of(is.finish - is.start);
            CHECK(sum >= 6 * fastest * (1 - 1e-9));
            if (corrects) last += seconds_of(results.jobs[5].finish - results.jobs[5].start);
            (corrects ? corrected_times : wrong_times) += sum;
        }
    }
    MESSAGE("fastest ", 30 * fastest, ", wrong ", wrong_times, ", corrected ", corrected_times, ", last jobs ",
            last / 5 / fastest);
    CHECK(corrected_times < wrong_times);
    CHECK(last / 5 - fastest < (wrong_times / 30 - fastest) * 2 / 3);
}

// Trains at a rate of 1 under plan 7, and keeps what was measured.
class RecordedSpeed final : public Speed {
public:
    double rate(const Grant&, const Cluster&) const override { return 1; }
    int plan_number(const Grant&) const override { return 7; }
    bool observe(const Grant& grant, double rate) const override {
        CHECK(grant.plan == 7);
        measured.push_back(rate);
        return false;
    }
    mutable std::vector<double> measured;
};

TEST_CASE("a step time is measured as if the job had all its cores") {
    const auto speed = std::make_shared<const RecordedSpeed>();
    TraceJob job;
    job.name = "job";
    job.work = 100e6;
    job.cpus = 2;
    job.cpu_scaling = 1;
    job.speed = job.truth = speed;
    SimulationRules rules;
    rules.observe = 60 * second;
    const Cluster cluster{{"GPU"}, {{"n0", 0, 1, 1, 0}}, {}};
    const SimulationResults results = run_script("synergy", cluster, {job}, rules);
    REQUIRE(seconds_of(results.jobs[0].finish) == doctest::Approx(200));  // half of its cores
    CHECK(speed->measured == std::vector<double>{1});
}

TEST_CASE("a step that is over before it is measured has no effect") {
    const auto speed = std::make_shared<const RecordedSpeed>();
    TraceJob job;
    job.name = "job";
    job.work = 200e6;
    job.speed = job.truth = speed;
    SimulationRules rules;
    rules.observe = 60 * second;
    rules.script = {test::job_cpus(50, 2)};
    std::vector<Time> calls;
    test::play_watched("fifo", simple_cluster(1, 1), {job}, rules,
                       [&](const Simulation& simulation) { calls.push_back(simulation.now()); });
    CHECK(std::ranges::count(calls, 60 * second) == 0);
    CHECK(std::ranges::count(calls, 110 * second) == 1);
    CHECK(speed->measured.size() == 1);
}

TEST_CASE("what is measured is the plan that ran, even if another may be thought better by then") {
    const Job model = formats::job_of(formats::read_throughput_model("testdata/profile/rubick/gpt2.toml"));
    const auto plans = std::make_shared<const ModelPlans>(model);
    const ModelSpeed speed{plans, parse_execution_plan("dp=4")};
    const Cluster cluster = simple_cluster(1, 8);
    Grant ran{{{0, 8}}};
    const Grant asked = ran;
    ran.plan = speed.plan_number(asked);
    REQUIRE(ran.plan > 0);
    const ExecutionPlan plan = *speed.plan_on(ran);
    REQUIRE(speed.plan_on(asked) == plan);
    CHECK(speed.observe(ran, 1e-3));  // far slower than it was thought to be
    CHECK(speed.plan_on(ran) == plan);
}

}  // namespace
}  // namespace tpx
