// SPDX-License-Identifier: Apache-2.0
// What a script changes during a run, against sums that are done by hand.
#include "formats/files/profile/throughput_file.hpp"
#include "lib/cluster/model_error.hpp"
#include "lib/cluster/model_plans.hpp"
#include "lib/cluster/policies.hpp"
#include "lib/cluster/simulation.hpp"
#include "lib/cluster/speed.hpp"
#include "tests/unit/cluster/scripted.hpp"
#include "tests/unit/cluster/watched.hpp"

#include <doctest/doctest.h>

namespace tpx {
namespace {

using test::host_gpus;
using test::job_limits;
using test::linear_job;
using test::run_script;
using test::simple_cluster;

TEST_CASE("a job has as many GPUs as a script leaves its hosts, and keeps its work") {
    const Cluster cluster = simple_cluster(4, 4);
    const std::vector<TraceJob> jobs{linear_job(225)};
    SimulationRules rules;
    // 16 GPUs for 100 s, 8 for 100 s, 4 for 100 s, and 16 again: 100 + 50 + 25 + 50 s of all GPUs.
    rules.script = {host_gpus(100, 1, 0), host_gpus(100, 2, 0), host_gpus(200, 3, 0),
                    host_gpus(300, 1, 4), host_gpus(300, 2, 4), host_gpus(300, 3, 4)};
    for (const std::string_view policy : {"wfs", "rubick", "rubick-r", "sia"}) {
        CAPTURE(policy);
        const SimulationResults results = run_script(policy, cluster, jobs, rules);
        CHECK(seconds_of(results.jobs[0].finish) == doctest::Approx(350).epsilon(1e-9));
        CHECK(results.jobs[0].stops == 0);
    }
    // Policies that do not resize jobs stop it until all GPUs are back.
    for (const std::string_view policy : {"fifo", "fifo-backfill", "srtf", "las", "rubick-e", "gavel"}) {
        CAPTURE(policy);
        const SimulationResults results = run_script(policy, cluster, jobs, rules);
        const double back = policy == "gavel" ? 360 : 300;  // a round
        CHECK(seconds_of(results.jobs[0].finish) == doctest::Approx(back + 125).epsilon(1e-9));
        CHECK(results.jobs[0].stops == 1);
    }
}

TEST_CASE("each resize by a script costs what any resize costs") {
    const Cluster cluster = simple_cluster(4, 4);
    const std::vector<TraceJob> jobs{linear_job(225)};
    SimulationRules rules;
    rules.delays.start = rules.delays.single = 7 * second;
    rules.delays.change = 3 * second;
    rules.script = {host_gpus(100, 1, 0), host_gpus(200, 2, 2)};
    const SimulationResults results = run_script("rubick", cluster, jobs, rules);
    // 93 s on 16 GPUs, 97 s on 12; the rest on 10, after 3 s.
    const double left = 225 - 93 - 97 * 12 / 16.0;
    CHECK(seconds_of(results.jobs[0].finish) == doctest::Approx(203 + left * 16 / 10).epsilon(1e-9));
    CHECK(results.jobs[0].changes == 2);
}

TEST_CASE("no host gives more than a script leaves it, whatever the policy") {
    std::mt19937 random{21};
    for (int round = 0; round < 10; ++round) {
        const Cluster cluster = simple_cluster(4, 4);
        std::vector<TraceJob> jobs = test::random_jobs(random, 20, 16);
        SimulationRules rules;
        for (TraceJob& job : jobs) {
            job.guaranteed = random() % 2;
            if (random() % 2) job.least = 1, job.own_limits = true;
        }
        if (round % 2) rules.delays.release = 5 * second;
        std::vector<int> gpus(4, 4);
        for (int i = 0; i < 12; ++i)
            rules.script.push_back(
                host_gpus(200 * (i + 1), static_cast<int>(random() % 4), static_cast<int>(random() % 5)));
        for (int host = 0; host < 4; ++host) rules.script.push_back(host_gpus(3000, host, 4));
        for (const PolicyInfo& info : policies()) {
            CAPTURE(info.name);
            const auto look = [&](const Simulation& simulation) {
                std::vector<int> most(4, 4), used(4);
                for (const ScriptedEvent& event : rules.script)
                    if (event.time <= simulation.now()) most[event.host] = *event.gpus;
                for (std::size_t id = 0; id < jobs.size(); ++id)
                    for (const GpuShare& part : simulation.grant(static_cast<int>(id)).parts)
                        used[part.host] += part.gpus;
                for (int host = 0; host < 4; ++host) CHECK(used[host] <= most[host]);
            };
            const SimulationResults results = test::play_watched(info.name, cluster, jobs, rules, look);
            for (const JobResult& is : results.jobs) CHECK(is.finish < never);
        }
    }
}

TEST_CASE("GPUs that a script takes are those of best-effort jobs first, then of those that came last") {
    const Cluster cluster = simple_cluster(1, 8);
    std::vector<TraceJob> jobs(4, linear_job(1000));
    for (TraceJob& job : jobs) job.gpus = job.least = job.most = 2;
    jobs[1].guaranteed = false;
    SimulationRules rules;
    rules.script = {host_gpus(100, 0, 6), host_gpus(200, 0, 4), host_gpus(300, 0, 8)};
    const SimulationResults results = run_script("antman", cluster, jobs, rules);
    const std::vector<int> stops{0, 1, 0, 1};
    for (std::size_t id = 0; id < 4; ++id) CHECK(results.jobs[id].stops == stops[id]);
}

TEST_CASE("a job shrinks and grows to limits that change while it runs") {
    const Cluster cluster = simple_cluster(4, 4);
    const std::vector<TraceJob> jobs{linear_job(225)};
    SimulationRules rules;
    rules.script = {job_limits(100, 8, 1, 8), job_limits(200, 4, 1, 4), job_limits(300, 16, 1, 16)};
    for (const std::string_view policy : {"wfs", "rubick", "sia"}) {
        CAPTURE(policy);
        CHECK(seconds_of(run_script(policy, cluster, jobs, rules).jobs[0].finish) ==
              doctest::Approx(350).epsilon(1e-9));
    }
    // Under fifo it is stopped and starts again with what it requests; it never grows.
    CHECK(seconds_of(run_script("fifo", cluster, jobs, rules).jobs[0].finish) ==
          doctest::Approx(200 + 75 * 4).epsilon(1e-9));
}

// A job of LLaMA 7B that offloads and has two cores, for 100 steps.
TraceJob offloading_job(const Job& model) {
    TraceJob job;
    job.name = "offload";
    job.work = 100e6;
    job.cpus = 2;
    job.speed = std::make_shared<ModelSpeed>(std::make_shared<ModelPlans>(model),
                                             parse_execution_plan("zero=2,offload,recompute=full"));
    return job;
}

Job llama_with(double cpus) {
    Job model = formats::job_of(formats::read_throughput_model("testdata/profile/rubick/llama7.toml"));
    model.cpus = cpus;
    return model;
}

TEST_CASE("twice as many cores make a job as fast as its model says, whatever policies believe") {
    const Job model = llama_with(2);
    const ExecutionPlan plan = parse_execution_plan("zero=2,offload,recompute=full");
    const double slow = evaluate_plan(model, plan, {{1}, model.gpus_per_nic, 2}).time.total();
    const double fast = evaluate_plan(model, plan, {{1}, model.gpus_per_nic, 4}).time.total();
    REQUIRE(fast < 0.9 * slow);
    SimulationRules rules;
    rules.script = {test::job_cpus(40 * slow, 4)};
    const std::vector<TraceJob> jobs{offloading_job(model)};
    for (const auto& played : {jobs, with_model_error(jobs, 0.5, 1)}) {
        const SimulationResults results = run_script("fifo", simple_cluster(1, 1), played, rules);
        CHECK(seconds_of(results.jobs[0].finish) == doctest::Approx(40 * slow + 60 * fast).epsilon(1e-6));
    }
}

TEST_CASE("a plan that a policy has chosen keeps its number when cores change") {
    const auto step = [](double cpus) {
        const ModelPlans plans{llama_with(cpus)};
        return 1 / plans.rate(plans.plan(plans.best({4})), {4});
    };
    TraceJob job = offloading_job(llama_with(2));
    job.gpus = job.least = job.most = 4;
    ExecutionPlan own = parse_execution_plan("zero=2,offload,recompute=full");
    own.dp = 4;
    job.speed = std::make_shared<ModelSpeed>(std::make_shared<ModelPlans>(llama_with(2)), own);
    Grant four{{{0, 4}}};
    const Cluster cluster = simple_cluster(1, 4);
    four.plan = job.speed->best_plan(four, cluster, false);
    REQUIRE(four.plan > 0);
    const auto more = job.speed->with_cpus(4, nullptr);
    CHECK(more->plan_name(four.plan) == job.speed->plan_name(four.plan));
    SimulationRules rules;
    rules.script = {test::job_cpus(40 * step(2), 4), test::job_cpus(40 * step(2) + 1, 8)};
    const SimulationResults results = run_script("rubick", cluster, {job}, rules);
    const double left = 60 - 1 / step(4);
    CHECK(seconds_of(results.jobs[0].finish) == doctest::Approx(40 * step(2) + 1 + left * step(8)).epsilon(0.01));
}

TEST_CASE("GPUs that a job is about to give back are not taken from it again") {
    TraceJob job = linear_job(1000);
    job.gpus = job.most = 8;
    SimulationRules rules;
    rules.delays.background = true;
    rules.delays.shrink = 10 * second;
    rules.script = {job_limits(100, 4, 1, 4), host_gpus(105, 0, 4)};
    for (const std::string_view policy : {"wfs", "rubick"}) {
        CAPTURE(policy);
        CHECK(run_script(policy, simple_cluster(1, 8), {job}, rules).jobs[0].stops == 0);
    }
}

TEST_CASE("gavel's shares are those of the GPUs that there are") {
    Cluster cluster{{"fast", "slow"}, {{"f", 0, 4, 0, 0}, {"s", 1, 4, 0, 0}}, {}};
    TraceJob job = linear_job(1000);
    job.gpus = job.least = job.most = 4;
    auto table = std::make_shared<TableSpeed>();
    table->add(0, 4, 2);
    table->add(1, 4, 1);
    job.speed = std::move(table);
    find_kinds(job, cluster);
    SimulationRules rules;
    rules.script = {host_gpus(100, 0, 0)};
    // 200 of 1000 s of work are done; from the next round on, it runs on the slow ones.
    const SimulationResults results = run_script("gavel", cluster, {job}, rules);
    CHECK(seconds_of(results.jobs[0].finish) == doctest::Approx(360 + 800));
}

TEST_CASE("rubick takes GPUs from a job that cannot run with what it requests") {
    const Job model = formats::job_of(formats::read_throughput_model("testdata/profile/rubick/gpt2.toml"));
    std::vector<TraceJob> jobs(2);
    for (TraceJob& job : jobs) {
        job.name = "job";
        job.gpus = job.least = job.most = 8;
        job.work = 1e5 * 1e6;
        job.speed = std::make_shared<ModelSpeed>(std::make_shared<ModelPlans>(model), parse_execution_plan("tp=8"));
    }
    jobs[0].guaranteed = false;
    jobs[0].least = 1;
    jobs[1].arrival = 200 * second;
    SimulationRules rules;
    rules.script = {job_limits(100, 5, 1, 8)};
    const SimulationResults results = run_script("rubick", simple_cluster(1, 8), jobs, rules);
    CHECK(results.jobs[1].start == 200 * second);
}

}  // namespace
}  // namespace tpx
