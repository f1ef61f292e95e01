// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/planned_changes.hpp"

#include "lib/change/model_parcels.hpp"
#include "lib/cluster/policies.hpp"
#include "lib/cluster/simulation.hpp"
#include "lib/cluster/speed.hpp"
#include "tests/unit/cluster/random_trace.hpp"

#include <doctest/doctest.h>

#include <set>

namespace tpx {
namespace {

constexpr Time restart = 30 * second;
constexpr double nic = 25e9, disk_read = 5e9, disk_write = 2e9;

std::vector<Host> hosts(std::size_t count) {
    Host host;
    host.nic = nic, host.disk_read = disk_read, host.disk_write = disk_write, host.memory = 1e15;
    return std::vector<Host>(count, host);
}

TraceJob job_of(const std::string& layout) {
    auto model = std::make_shared<JobModel>();
    model->state = transformer_state(1e9, 24, 2048, 50000);
    model->layout = parse_layout(layout);
    TraceJob job;
    job.speed = std::make_shared<PowerSpeed>(4, 1);
    job.model_state = std::move(model);
    return job;
}

double state_bytes(const TraceJob& job) { return 14.0 * static_cast<double>(parameters(job.model_state->state)); }

TEST_CASE("a layout follows from the name of a plan and the GPUs") {
    const JobModel model{transformer_state(1e9, 24, 2048, 50000), parse_layout("tp=8")};
    CHECK(to_string(model.layout_on(32, "244")) == "tp=4,pp=2,dp=4");
    CHECK(to_string(model.layout_on(8, "zero-dp")) == "dp=8,zero=2");
    CHECK(to_string(model.layout_on(8, "zero-offload")) == "dp=8,zero=2");
    CHECK(to_string(model.layout_on(8, "ga")) == "dp=8");
    CHECK(to_string(model.layout_on(16, "tp=2,pp=2")) == "tp=2,pp=2,dp=4");
    CHECK(to_string(model.layout_on(16, "")) == "tp=8,dp=2");
    CHECK(to_string(model.layout_on(4, "")) == "tp=4");  // eight do not fit
    CHECK(to_string(model.layout_on(12, "")) == "tp=4,dp=3");
    CHECK(to_string(model.layout_on(10, "511")) == "pp=5,dp=2,stages=[5,5,5,5,4]");
}

TEST_CASE("a transformer of given sizes has as many parameters, and tp cuts it all") {
    const ModelState state = transformer_state(1e9, 24, 2048, 50000);
    CHECK(static_cast<double>(parameters(state)) == doctest::Approx(1e9).epsilon(1e-4));
    const std::vector<std::uint64_t> held = held_bytes(state, parse_layout("tp=7"));
    for (const std::uint64_t bytes : held) CHECK(static_cast<double>(bytes) == doctest::Approx(2e9).epsilon(1e-3));
    CHECK_THROWS(transformer_state(1e6, 24, 2048, 50000));
}

TEST_CASE("directly, only hosts that lack a replica receive one") {
    const Cluster cluster = test::simple_cluster(4, 8);
    const PlannedChanges costs{cluster, hosts(4), StateRoute::directly, restart};
    const TraceJob job = job_of("dp=1");
    const double state = state_bytes(job);
    const ChangeCost inside = costs.change(job, {{{0, 2}}}, {{{0, 4}}});
    CHECK(inside.bytes == 0);
    const ChangeCost grown = costs.change(job, {{{0, 2}}}, {{{0, 2}, {1, 2}}});
    CHECK(grown.bytes == state);
    CHECK(seconds_of(grown.delay) == doctest::Approx(30 + state / nic).epsilon(1e-6));
    CHECK(costs.change(job, {{{0, 2}, {1, 2}}}, {{{1, 2}}}).bytes == 0);
    CHECK(costs.change(job, {{{0, 4}}}, {{{1, 4}}}).bytes == state);
    CHECK(costs.planned() == 4);
    costs.change(job, {{{2, 2}}}, {{{2, 2}, {3, 2}}});  // the same on other hosts
    CHECK(costs.planned() == 4);
}

TEST_CASE("by storage, all state is written once and read once by each host") {
    const Cluster cluster = test::simple_cluster(4, 8);
    const PlannedChanges costs{cluster, hosts(4), StateRoute::by_storage, restart};
    const TraceJob job = job_of("dp=1");
    const double state = state_bytes(job);
    const ChangeCost is = costs.change(job, {{{0, 2}, {1, 2}}}, {{{0, 2}, {2, 2}}});
    CHECK(is.bytes == 3 * state);
    CHECK(seconds_of(is.delay) == doctest::Approx(30 + state / 2 / disk_write + state / disk_read).epsilon(1e-6));
    // After a failure the state is in storage already.
    CHECK(costs.resume(job, {}, {{{0, 2}}}).bytes == state);
}

// What each host needs and does not hold, counted parcel by parcel, ranks in order on both sides.
double lacking(const ModelState& state, const Layout& from, const Layout& to, const std::vector<int>& before,
               const std::vector<int>& after) {
    std::vector<int> old_hosts, new_hosts;
    for (std::size_t host = 0; host < before.size(); ++host) old_hosts.insert(old_hosts.end(), before[host], int(host));
    for (std::size_t host = 0; host < after.size(); ++host) new_hosts.insert(new_hosts.end(), after[host], int(host));
    const Parcels parcels = model_parcels(state, from, to);
    double bytes = 0;
    for (const Parcel& parcel : parcels.parcels) {
        std::set<int> held, needed;
        for (const int rank : parcels.holders[parcel.holders]) held.insert(old_hosts[rank]);
        for (const int rank : parcels.needers[parcel.needers]) needed.insert(new_hosts[rank]);
        for (const int host : needed) bytes += held.contains(host) ? 0 : static_cast<double>(parcel.bytes);
    }
    return bytes;
}

TEST_CASE("never more is moved than when ranks stay in order, and never more than by storage") {
    std::mt19937 random{9};
    const Cluster cluster = test::simple_cluster(4, 4);
    const PlannedChanges direct{cluster, hosts(4), StateRoute::directly, restart};
    const PlannedChanges stored{cluster, hosts(4), StateRoute::by_storage, restart};
    const std::vector<std::string> layouts{"tp=2", "tp=4", "pp=2", "tp=2,pp=2", "dp=1", "zero=1", "zero=2,tp=2"};
    for (int round = 0; round < 60; ++round) {
        TraceJob job = job_of(layouts[random() % layouts.size()]);
        std::vector<int> before(4), after(4);
        for (int i = 0; i < 4; ++i) {
            before[i] = i < 1 + round % 4 ? 4 : 0;  // fullest first, as ranks are taken to be
            after[i] = random() % 2 ? 4 : 0;
        }
        if (after == std::vector<int>(4)) after[3] = 4;
        Grant from, to;
        for (int i = 0; i < 4; ++i) {
            if (before[i] > 0) from.parts.push_back({i, before[i]});
            if (after[i] > 0) to.parts.push_back({i, after[i]});
        }
        const JobModel& model = *job.model_state;
        const double in_order =
            lacking(model.state, model.layout_on(from.gpus(), ""), model.layout_on(to.gpus(), ""), before, after);
        const double moved = direct.change(job, from, to).bytes;
        CHECK(moved <= in_order);
        CHECK(moved <= stored.change(job, from, to).bytes);
        if (from == to) CHECK(moved == 0);
    }
}

// Has the only job on all GPUs of a host from a time on.
class Moves final : public Policy {
public:
    explicit Moves(std::vector<std::pair<Time, int>> moves) : moves_{std::move(moves)} {}

    void schedule(Simulation& simulation) override {
        if (next_ == moves_.size() || simulation.now() < moves_[next_].first) return;
        const Grant there{{{moves_[next_++].second, 4}}};
        simulation.running().empty() ? simulation.start(0, there) : simulation.change(0, there);
        if (next_ < moves_.size()) simulation.wake(moves_[next_].first);
    }

private:
    std::vector<std::pair<Time, int>> moves_;
    std::size_t next_ = 0;
};

TEST_CASE("a change during a start or a change is priced from where the state is") {
    std::vector<TraceJob> jobs{job_of("tp=4")};
    jobs[0].gpus = jobs[0].most = 4;
    jobs[0].work = 1000e6;
    const double state = state_bytes(jobs[0]), move = state / nic;
    const Cluster cluster = test::simple_cluster(3, 4);
    SimulationRules rules;
    rules.delays.start = rules.delays.single = rules.delays.change = restart;
    rules.costs = std::make_shared<PlannedChanges>(cluster, hosts(3), StateRoute::directly, restart);
    const auto play = [&](std::vector<std::pair<Time, int>> moves) {
        Moves policy{std::move(moves)};
        return Simulation{cluster, jobs, rules}.run(policy).jobs[0];
    };
    // It has trained for 70 s on host 0 when it is told to move. While its state moves, the state is still there.
    const Time half = time_of(move / 2), at = 100 * second + half, later = 100 * second + 2 * half + second;
    const JobResult back = play({{0, 0}, {100 * second, 1}, {at, 0}});
    CHECK(back.moved == state);
    CHECK(seconds_of(back.finish) == doctest::Approx(seconds_of(at) + 30 + 930).epsilon(1e-9));
    const JobResult onwards = play({{0, 0}, {100 * second, 1}, {at, 2}});
    CHECK(onwards.moved == 2 * state);
    CHECK(seconds_of(onwards.finish) == doctest::Approx(seconds_of(at) + 30 + move + 930).epsilon(1e-6));
    // During the restart, it has arrived on host 1.
    const JobResult late = play({{0, 0}, {100 * second, 1}, {later, 0}});
    CHECK(late.moved == 2 * state);
    CHECK(seconds_of(late.finish) == doctest::Approx(seconds_of(later) + 30 + move + 930).epsilon(1e-6));
    // Before its first step it has no state.
    const JobResult starting = play({{0, 0}, {10 * second, 1}});
    CHECK(starting.moved == 0);
    CHECK(seconds_of(starting.finish) == doctest::Approx(10 + 30 + 1000).epsilon(1e-9));
}

TEST_CASE("a simulation pays for changes and later starts, and a failure writes nothing") {
    std::vector<TraceJob> jobs{job_of("dp=1")};
    jobs[0].gpus = jobs[0].most = 4;
    jobs[0].work = 1000e6;
    const double state = state_bytes(jobs[0]);
    const Cluster cluster = test::simple_cluster(1, 4);
    SimulationRules rules;
    rules.delays.start = rules.delays.single = rules.delays.change = restart;
    rules.costs = std::make_shared<PlannedChanges>(cluster, hosts(1), StateRoute::directly, restart);
    rules.outages = {{0, 500 * second, 600 * second}};
    const SimulationResults results = Simulation{cluster, jobs, rules}.run(*find_policy("fifo")->make());
    // 30 s of start, 470 s of training, 100 s down, 30 s and reading of all state, 530 s of training.
    CHECK(results.jobs[0].moved == state);
    CHECK(seconds_of(results.jobs[0].paused) == doctest::Approx(30 + state / disk_read).epsilon(1e-6));
    CHECK(seconds_of(results.jobs[0].finish) == doctest::Approx(600 + 30 + state / disk_read + 530).epsilon(1e-6));
}

}  // namespace
}  // namespace tpx
