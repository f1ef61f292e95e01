// SPDX-License-Identifier: Apache-2.0
#include "lib/model/step_time.hpp"

#include "tests/support/cpu_time.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace tpx;

namespace {

// A model of round numbers.
ModelSize small_model() {
    ModelSize model;
    model.parameters = 1e9;
    model.layers = 10;
    model.hidden = 1000;
    model.sequence = 500;
    return model;
}

Parameters round_parameters() {
    Parameters is;
    is.forward = 0.1;
    is.model_parallel = 2;
    is.recompute = 0.5;
    is.k_bwd = 3;
    is.k_sync = 1;  // nothing overlaps: sums can be written down
    is.k_opt = 1e-10;
    is.k_optoff = 1e-8;
    is.k_off = 1;
    is.k_swap = 1;
    is.zero_exchange = 0.5;
    is.tensor_rate = 1;
    is.k_const = 0.01;
    is.intra = 1e11;
    is.nic = 1e10;
    is.pcie = 1e10;
    is.further_host = 0.001;
    is.further_stage = 0.002;
    is.uneven = 0.004;
    return is;
}

StepTime time_of(const char* text, std::vector<int> gpus, double batch, const Parameters& is = round_parameters()) {
    const ExecutionPlan plan = parse_execution_plan(text);
    const Allocation allocation{std::move(gpus), 2, 4};
    return step_time(is, small_model(), batch, plan, routes_of(plan, allocation), allocation.cpus);
}

}  // namespace

TEST_CASE("overlap runs from the sum to the larger one") {
    CHECK(overlap(3, 4, 1) == doctest::Approx(7));
    CHECK(overlap(3, 4, 2) == doctest::Approx(5));
    CHECK(overlap(3, 4, 400) == doctest::Approx(4));
    CHECK(overlap(0, 4, 1.5) == 4);
    CHECK(overlap(1e-300, 4, 9) == doctest::Approx(4));
    CHECK(overlap(0, 0, 2) == 0);
}

TEST_CASE("one GPU computes and nothing else") {
    const StepTime time = time_of("dp=1", {1}, 8);
    CHECK(time.forward == doctest::Approx(0.8));
    CHECK(time.backward == doctest::Approx(2.4));
    CHECK(time.optimizer == doctest::Approx(0.1));
    CHECK(time.total() == doctest::Approx(0.8 + 2.4 + 0.1 + 0.01));
}

TEST_CASE("replicas exchange gradients: 2(d-1)/d of them through each link") {
    const StepTime inside = time_of("dp=4", {4}, 8);
    CHECK(inside.forward == doctest::Approx(0.2));
    CHECK(inside.gradients == doctest::Approx(2e9 * 2 * 3 / 4 / 1e11));
    const StepTime between = time_of("dp=4", {2, 2}, 8);
    CHECK(between.gradients == doctest::Approx(2e9 * 2 * 3 / 4 / 1e10));
    CHECK(between.constant == doctest::Approx(0.011));
    CHECK(time_of("dp=4", {3, 1}, 8).constant == doctest::Approx(0.015));
    CHECK(time_of("dp=3", {3}, 8).forward == doctest::Approx(0.3));  // 3, 3 and 2 samples
}

TEST_CASE("accumulation exchanges once, ZeRO 2 each time") {
    const double once = 2e9 * 2 * 3 / 4 / 1e11;
    CHECK(time_of("dp=4,ga=2", {4}, 8).gradients == doctest::Approx(once));
    CHECK(time_of("dp=4,ga=2", {4}, 8).forward == doctest::Approx(0.2));
    CHECK(time_of("dp=4,ga=2,zero=1", {4}, 8).gradients == doctest::Approx(once));
    CHECK(time_of("dp=4,ga=2,zero=2", {4}, 8).gradients == doctest::Approx(once * 1.5));
    CHECK(time_of("dp=4,ga=2,zero=3", {4}, 8).gradients == doctest::Approx(once * 3));
    CHECK(time_of("dp=4,zero=1", {4}, 8).optimizer == doctest::Approx(0.1 / 4));
}

TEST_CASE("full recomputation costs a part of a forward pass and half of the tensor traffic more") {
    CHECK(time_of("dp=1,recompute=full", {1}, 8).recompute == doctest::Approx(0.4));
    CHECK(time_of("dp=1,recompute=selective", {1}, 8).recompute == doctest::Approx(0.8 * 500 / 6500));
    CHECK(time_of("tp=2,recompute=full", {2}, 8).tensor == doctest::Approx(1.5 * time_of("tp=2", {2}, 8).tensor));
}

TEST_CASE("tensor parallelism: four all-reduces a layer") {
    const StepTime time = time_of("tp=4", {4}, 8);
    CHECK(time.forward == doctest::Approx(0.1 * 2 * 8 / 4));
    CHECK(time.tensor == doctest::Approx(4 * 10 * 2.0 * (8 * 500 * 1000) * 2 * 3 / 4 / 1e11));
    // Two GPUs on either side of the cut: one NIC.
    CHECK(time_of("tp=4", {2, 2}, 8).tensor == doctest::Approx(10 * time.tensor));
    CHECK(time.optimizer == doctest::Approx(0.1 / 4));
}

TEST_CASE("a pipeline has bubbles, fewer with micro-batches and with chunks") {
    CHECK(time_of("pp=4", {4}, 8).forward == doctest::Approx(0.1 * 2 * 8));  // one after another
    CHECK(time_of("pp=4,mb=8", {4}, 8).forward == doctest::Approx(0.1 * 2 * 8 / 4 * 11 / 8));
    CHECK(time_of("pp=4,mb=8,vpp=3", {4}, 8).forward == doctest::Approx(0.1 * 2 * 8 / 4 * (1 + 3.0 / 24)));
    const double boundary = 2 * 2.0 * 8 * 500 * 1000;
    CHECK(time_of("pp=4", {4}, 8).pipeline == doctest::Approx(3 * boundary / 1e11 + 3 * 0.002));
    CHECK(time_of("pp=4", {2, 2}, 8).pipeline == doctest::Approx(boundary * (2 / 1e11 + 1 / 1e10) + 3 * 0.002));
    // Each of two GPUs sends all activations through the NIC that they share, or with sequence parallelism its half.
    CHECK(time_of("tp=2,pp=2", {2, 2}, 8).pipeline == doctest::Approx(2 * boundary / 1e10 + 0.002));
    CHECK(time_of("tp=2,pp=2,sp", {2, 2}, 8).pipeline == doctest::Approx(boundary / 1e10 + 0.002));
    // Two micro-batches go through one border, the second behind the first.
    CHECK(time_of("pp=2,mb=2", {1, 1}, 8).pipeline == doctest::Approx(boundary / 1e10 + 0.002));
}

TEST_CASE("each pass has its constant, and a stage its part of it") {
    CHECK(time_of("dp=4,ga=2", {4}, 8).constant == doctest::Approx(0.02));
    CHECK(time_of("pp=4", {4}, 8).constant == doctest::Approx(0.01));
    CHECK(time_of("pp=4,mb=8", {4}, 8).constant == doctest::Approx(0.01 * 11 / 4));
}

TEST_CASE("offloading copies gradients and weights and computes on the CPU") {
    const StepTime time = time_of("dp=2,zero=2,offload", {2}, 8);
    CHECK(time.optimizer == doctest::Approx(1e-8 * 1e9 / (2 * 4)));
    CHECK(time.offload == doctest::Approx(2 * 2e9 / 1e10));
    CHECK(time.gradients == doctest::Approx(2e9 * 2 / 2 / 1e11));
    CHECK(time_of("dp=2,zero=2,offload,ga=3", {2}, 12).offload == doctest::Approx(4 * 2e9 / 1e10));
}

TEST_CASE("what overlaps takes no longer than one after the other") {
    Parameters is = round_parameters();
    const double serial = time_of("dp=4", {2, 2}, 8, is).total();
    is.k_sync = 2;
    const StepTime time = time_of("dp=4", {2, 2}, 8, is);
    CHECK(time.total() < serial);
    CHECK(time.backward + time.gradients == doctest::Approx(std::hypot(0.6, 0.3)));
}

TEST_CASE("a core predicts a million plans a second") {
    const ExecutionPlan plan = parse_execution_plan("dp=4,tp=2,pp=2,mb=4");
    const Allocation allocation{{8, 8}, 2, 4};
    Parameters is = round_parameters();
    is.k_sync = 1.5;
    double sum = 0;
    constexpr int count = 200'000;
    constexpr double enough = count / 0.2e6;  // a fifth, for machines that are slower
    const double taken = test::least_cpu_seconds(enough, [&] {
        for (int i = 0; i < count; ++i)
            sum += step_time(is, small_model(), 8 + i % 8, plan, routes_of(plan, allocation), 4).total();
    });
    CHECK(sum > 0);
    MESSAGE("plans a second: ", count / taken);
#ifdef NDEBUG
    CHECK(taken < enough);
#endif
}
