// SPDX-License-Identifier: Apache-2.0
// What failures take of jobs, and what they go on from, against sums that are done by hand.
#include "lib/cluster/planned_changes.hpp"
#include "tests/unit/cluster/scripted.hpp"

#include <doctest/doctest.h>

namespace tpx {
namespace {

using test::job_limits;
using test::linear_job;
using test::run_script;
using test::simple_cluster;

constexpr double nic_rate = 25e9, storage_rate = 5e9;

// Two replicas on two hosts, a checkpoint every 300 s; `outages` happen.
SimulationResults fail(const std::vector<Outage>& outages, bool from_replicas, const std::string& layout,
                       double& state) {
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
    SimulationRules rules;
    rules.delays.start = rules.delays.single = rules.delays.change = 30 * second;
    rules.costs =
        std::make_shared<PlannedChanges>(cluster, std::vector<Host>(2, host), StateRoute::directly, 30 * second);
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

TEST_CASE("a job that was stopped before its first step has no state to load") {
    double state = 0;
    const double finish = seconds_of(fail({{1, 20 * second, 100 * second}}, false, "tp=4", state).jobs[0].finish);
    CHECK(finish == 100 + 30 + 1000);
}

TEST_CASE("a failure while a job recovers costs all work since its last checkpoint") {
    double state = 0;
    // The only host with all state fails while it sends that to the other one.
    const std::vector<Outage> again{{1, 500 * second, 600 * second}, {0, 610 * second, 700 * second}};
    double finish = seconds_of(fail(again, true, "tp=4", state).jobs[0].finish);
    CHECK(finish == doctest::Approx(700 + 30 + state / storage_rate + 530 + 170).epsilon(1e-6));
    // A second failure of the host that was lost takes nothing.
    const std::vector<Outage> same{{1, 500 * second, 600 * second}, {1, 610 * second, 700 * second}};
    finish = seconds_of(fail(same, true, "tp=4", state).jobs[0].finish);
    CHECK(finish == doctest::Approx(700 + 30 + state / nic_rate + 530).epsilon(1e-6));
}

TEST_CASE("recovery from replicas is no checkpoint") {
    double state = 0;
    const std::vector<Outage> later{
        {1, 500 * second, 600 * second}, {1, 700 * second, 800 * second}, {0, 700 * second, 800 * second}};
    const double finish = seconds_of(fail(later, true, "tp=4", state).jobs[0].finish);
    CHECK(finish == doctest::Approx(800 + 30 + state / storage_rate + 700).epsilon(1e-6));
}

TEST_CASE("a change of cores is no checkpoint") {
    SimulationRules rules;
    rules.checkpoint = 300 * second;
    rules.script = {test::job_cpus(200, 2)};
    rules.outages = {{0, 250 * second, 300 * second}};
    const SimulationResults results = run_script("fifo", simple_cluster(4, 4), {linear_job(1000)}, rules);
    CHECK(seconds_of(results.jobs[0].finish) == doctest::Approx(300 + 1000));
}

TEST_CASE("a failure while a job is resized costs the work since its last checkpoint") {
    SimulationRules rules;
    rules.delays.change = 50 * second;
    rules.checkpoint = 300 * second;
    rules.script = {job_limits(200, 8, 8, 8)};
    rules.outages = {{0, 220 * second, 300 * second}};
    const SimulationResults results = run_script("rubick", simple_cluster(4, 4), {linear_job(225)}, rules);
    CHECK(seconds_of(results.jobs[0].finish) == doctest::Approx(220 + 225 * 2));
}

TEST_CASE("centrally, all state goes into one host and out again") {
    Host host;
    host.nic = nic_rate;
    const Cluster cluster = simple_cluster(4, 8);
    const PlannedChanges costs{cluster, std::vector<Host>(4, host), StateRoute::centrally, 30 * second};
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

}  // namespace
}  // namespace tpx
