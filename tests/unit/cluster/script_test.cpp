// SPDX-License-Identifier: Apache-2.0
// What a script changes during a run, against sums that are done by hand.
#include "formats/files/profile/throughput_file.hpp"
#include "lib/cluster/model_error.hpp"
#include "lib/cluster/model_plans.hpp"
#include "lib/cluster/planned_changes.hpp"
#include "lib/cluster/policies.hpp"
#include "lib/cluster/simulation.hpp"
#include "lib/cluster/speed.hpp"
#include "tests/unit/cluster/random_trace.hpp"
#include "tests/unit/cluster/watched.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace tpx {
namespace {

using test::simple_cluster;

// A job that is twice as fast on twice as many GPUs, up to 16, and takes `seconds` on all of them.
TraceJob linear_job(double seconds) {
    TraceJob job;
    job.name = "job";
    job.gpus = job.most = 16;
    job.least = 1;
    job.own_limits = true;
    job.work = seconds * 1e6;
    job.speed = std::make_shared<PowerSpeed>(16, 1);
    return job;
}

ScriptedEvent host_gpus(double seconds, int host, int gpus) {
    ScriptedEvent event;
    event.time = time_of(seconds);
    event.host = host;
    event.gpus = gpus;
    return event;
}

ScriptedEvent job_limits(double seconds, int gpus, int least, int most) {
    ScriptedEvent event;
    event.time = time_of(seconds);
    event.job = 0;
    event.gpus = gpus, event.least = least, event.most = most;
    return event;
}

Results run_script(std::string_view policy, const Cluster& cluster, const std::vector<TraceJob>& jobs,
                   const Rules& rules) {
    return Simulation{cluster, jobs, rules}.run(*find_policy(policy)->make());
}

TEST_CASE("a job has as many GPUs as a script leaves its hosts, and keeps its work") {
    const Cluster cluster = simple_cluster(4, 4);
    const std::vector<TraceJob> jobs{linear_job(225)};
    Rules rules;
    // 16 GPUs for 100 s, 8 for 100 s, 4 for 100 s, and 16 again: 100 + 50 + 25 + 50 s of all GPUs.
    rules.script = {host_gpus(100, 1, 0), host_gpus(100, 2, 0), host_gpus(200, 3, 0),
                    host_gpus(300, 1, 4), host_gpus(300, 2, 4), host_gpus(300, 3, 4)};
    for (const std::string_view policy : {"wfs", "rubick", "rubick-r", "sia"}) {
        CAPTURE(policy);
        const Results results = run_script(policy, cluster, jobs, rules);
        CHECK(seconds_of(results.jobs[0].finish) == doctest::Approx(350).epsilon(1e-9));
        CHECK(results.jobs[0].stops == 0);
    }
    // Policies that do not resize jobs stop it until all GPUs are back.
    for (const std::string_view policy : {"fifo", "fifo-backfill", "srtf", "las", "rubick-e", "gavel"}) {
        CAPTURE(policy);
        const Results results = run_script(policy, cluster, jobs, rules);
        const double back = policy == "gavel" ? 360 : 300;  // a round
        CHECK(seconds_of(results.jobs[0].finish) == doctest::Approx(back + 125).epsilon(1e-9));
        CHECK(results.jobs[0].stops == 1);
    }
}

TEST_CASE("each resize by a script costs what any resize costs") {
    const Cluster cluster = simple_cluster(4, 4);
    const std::vector<TraceJob> jobs{linear_job(225)};
    Rules rules;
    rules.delays.start = rules.delays.single = 7 * second;
    rules.delays.change = 3 * second;
    rules.script = {host_gpus(100, 1, 0), host_gpus(200, 2, 2)};
    const Results results = run_script("rubick", cluster, jobs, rules);
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
        Rules rules;
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
            const Results results = test::play_watched(info.name, cluster, jobs, rules, look);
            for (const JobResult& is : results.jobs) CHECK(is.finish < never);
        }
    }
}

TEST_CASE("GPUs that a script takes are those of best-effort jobs first, then of those that came last") {
    const Cluster cluster = simple_cluster(1, 8);
    std::vector<TraceJob> jobs(4, linear_job(1000));
    for (TraceJob& job : jobs) job.gpus = job.least = job.most = 2;
    jobs[1].guaranteed = false;
    Rules rules;
    rules.script = {host_gpus(100, 0, 6), host_gpus(200, 0, 4), host_gpus(300, 0, 8)};
    const Results results = run_script("antman", cluster, jobs, rules);
    const std::vector<int> stops{0, 1, 0, 1};
    for (std::size_t id = 0; id < 4; ++id) CHECK(results.jobs[id].stops == stops[id]);
}

TEST_CASE("a job shrinks and grows to limits that change while it runs") {
    const Cluster cluster = simple_cluster(4, 4);
    const std::vector<TraceJob> jobs{linear_job(225)};
    Rules rules;
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

TEST_CASE("twice as many cores make a job as fast as its model says") {
    Job model = formats::job_of(formats::read_throughput_model("testdata/profile/rubick/llama7.toml"));
    model.cpus = 2;
    const ExecutionPlan plan = parse_execution_plan("zero=2,offload,recompute=full");
    TraceJob job;
    job.name = "offload";
    job.work = 100e6;
    job.speed = std::make_shared<ModelSpeed>(std::make_shared<ModelPlans>(model), plan);
    const double slow = judge(model, plan, {{1}, model.gpus_per_nic, 2}).time.total();
    const double fast = judge(model, plan, {{1}, model.gpus_per_nic, 4}).time.total();
    REQUIRE(fast < 0.9 * slow);
    Rules rules;
    ScriptedEvent more;
    more.time = time_of(40 * slow);
    more.job = 0;
    more.cpus = 4;
    rules.script = {more};
    const Results results = run_script("fifo", simple_cluster(1, 1), {job}, rules);
    CHECK(seconds_of(results.jobs[0].finish) == doctest::Approx(40 * slow + 60 * fast).epsilon(1e-6));
}

constexpr double nic_rate = 25e9, storage_rate = 5e9;

// Two replicas on two hosts, a checkpoint every 300 s; `outages` happen.
Results fail(const std::vector<Outage>& outages, bool from_replicas, const std::string& layout, double& state) {
    Host host;
    host.nic = nic_rate, host.disk_read = storage_rate, host.disk_write = 2e9, host.memory = 1e15;
    auto model = std::make_shared<JobModel>();
    model->state = transformer_state(1e9, 24, 2048, 50000);
    model->layout = parse_layout(layout);
    state = 14.0 * static_cast<double>(parameters(model->state));
    std::vector<TraceJob> jobs{linear_job(1000)};
    jobs[0].gpus = jobs[0].least = jobs[0].most = 8;
    jobs[0].speed = std::make_shared<PowerSpeed>(8, 1);
    jobs[0].model_state = std::move(model);
    const Cluster cluster = simple_cluster(2, 4);
    Rules rules;
    rules.delays.start = rules.delays.single = rules.delays.change = 30 * second;
    rules.costs =
        std::make_shared<PlannedChanges>(cluster, std::vector<Host>(2, host), StateGoes::directly, 30 * second);
    rules.checkpoint = 300 * second;
    rules.from_replicas = from_replicas;
    rules.outages = outages;
    return run_script("fifo", cluster, jobs, rules);
}

TEST_CASE("a failed job continues from the replica on its other host, and loses no work") {
    double state = 0, finish = 0;
    const std::vector<Outage> one{{1, 500 * second, 600 * second}};
    // It trained from 30 to 500 s. The other host sends all state; or both read it, and 170 s are lost.
    finish = seconds_of(fail(one, true, "tp=4", state).jobs[0].finish);
    CHECK(finish == doctest::Approx(600 + 30 + state / nic_rate + 530).epsilon(1e-6));
    finish = seconds_of(fail(one, false, "tp=4", state).jobs[0].finish);
    CHECK(finish == doctest::Approx(600 + 30 + state / storage_rate + 530 + 170).epsilon(1e-6));
    // Without a replica on the other host, or once the other host fails, too, the checkpoint is all there is.
    finish = seconds_of(fail(one, true, "tp=8", state).jobs[0].finish);
    CHECK(finish == doctest::Approx(600 + 30 + state / 2 / storage_rate + 530 + 170).epsilon(1e-6));
    const std::vector<Outage> both{{1, 500 * second, 600 * second}, {0, 550 * second, 600 * second}};
    finish = seconds_of(fail(both, true, "tp=4", state).jobs[0].finish);
    CHECK(finish == doctest::Approx(600 + 30 + state / storage_rate + 530 + 170).epsilon(1e-6));
}

TEST_CASE("centrally, all state goes into one host and out again") {
    Host host;
    host.nic = nic_rate;
    const Cluster cluster = simple_cluster(4, 8);
    const PlannedChanges costs{cluster, std::vector<Host>(4, host), StateGoes::centrally, 30 * second};
    TraceJob job = linear_job(1);
    auto model = std::make_shared<JobModel>();
    model->state = transformer_state(1e9, 24, 2048, 50000);
    model->layout = parse_layout("tp=4");
    job.model_state = model;
    const double state = 14.0 * static_cast<double>(parameters(model->state));
    const auto bytes = [&](const Grant& from, const Grant& to) {
        const ChangeCost cost = costs.change(job, from, to);
        CHECK(seconds_of(cost.delay) == doctest::Approx(30 + cost.bytes / nic_rate).epsilon(1e-6));
        return cost.bytes;
    };
    CHECK(bytes({{{0, 4}}}, {{{0, 4}, {1, 4}}}) == state);  // a second replica
    CHECK(bytes({{{0, 4}}}, {{{1, 4}}}) == state);          // to another host
    CHECK(bytes({{{0, 2}, {1, 2}}}, {{{0, 2}, {1, 2}}}) ==
          doctest::Approx(state).epsilon(1e-4));  // half in, half out, though nothing changes
    CHECK(bytes({{{0, 2}, {1, 2}}}, {{{2, 2}, {3, 2}}}) == doctest::Approx(1.5 * state).epsilon(1e-4));
}

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
            Rules rules;
            if (corrects) rules.observe = 60 * second;
            const Results results = run_script("rubick", cluster, believed, rules);
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

}  // namespace
}  // namespace tpx
