// SPDX-License-Identifier: Apache-2.0
#include "lib/model/memory_use.hpp"

#include "lib/change/model_parcels.hpp"
#include "lib/layout/layout.hpp"
#include "tests/unit/change/random_models.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace tpx;

namespace {

// GPT-3's shape at a tenth of its layers.
ModelSize model() {
    ModelSize size;
    size.parameters = 18e9;
    size.layers = 8;
    size.hidden = 12288;
    size.heads = 96;
    size.sequence = 2048;
    return size;
}

MemoryUse use(const char* plan, double batch = 1) {
    return memory_use(model(), batch, parse_execution_plan(plan), 8, {1, 0});
}

// A decoder whose embedding is the output layer: all sizes can be split evenly.
ModelState tied_decoder(testing::models::RandomSource& random) {
    ModelState decoder{.name = "decoder", .layers = 12, .roles = parse_roles("train", DType::bf16)};
    const Index hidden = 48 * random.between(1, 4);
    TensorClass embed{.name = "embed", .shape = {240, hidden}, .tp_axis = 0};
    embed.first = embed.last = true;
    TensorClass matrix{.name = "up", .shape = {480, hidden}, .tp_axis = 0};
    for (int layer = 0; layer < decoder.layers; ++layer) matrix.layers.push_back(layer);
    decoder.classes = {embed, matrix};
    return decoder;
}

}  // namespace

TEST_CASE("law: weights and optimizer state are what the fullest rank of the layout holds") {
    testing::models::RandomSource random{14};
    for (int round = 0; round < 200; ++round) {
        const ModelState decoder = tied_decoder(random);
        const ExecutionPlan plan{.dp = random.one_of({1, 2, 4, 5}),
                                 .tp = random.one_of({1, 2, 4}),
                                 .pp = random.one_of({1, 2, 3, 4}),
                                 .cp = random.one_of({1, 2}),
                                 .zero = random.between(0, 2)};
        CAPTURE(to_string(plan));
        const std::vector<std::uint64_t> held =
            held_bytes(decoder, {.tp = plan.tp, .pp = plan.pp, .dp = plan.dp, .cp = plan.cp, .zero = plan.zero});
        const MemoryUse use = memory_use(size_of(decoder, 128), plan.dp, plan, 8, {1, 0});
        // Shards of ZeRO are whole rows, so that some have up to a row more.
        CHECK(use.weights + use.optimizer ==
              doctest::Approx(static_cast<double>(std::ranges::max(held))).epsilon(plan.zero > 0 ? 0.05 : 1e-9));
    }
}

TEST_CASE("states: 16 bytes a parameter, shared by ZeRO") {
    CHECK(use("dp=4", 4).weights == doctest::Approx(2 * 18e9));
    CHECK(use("dp=4", 4).gradients == doctest::Approx(2 * 18e9));
    CHECK(use("dp=4", 4).optimizer == doctest::Approx(12 * 18e9));
    CHECK(use("dp=4,zero=1", 4).optimizer == doctest::Approx(3 * 18e9));
    CHECK(use("dp=4,zero=2", 4).gradients == doctest::Approx(0.5 * 18e9));
    CHECK(use("dp=4,zero=3", 4).weights == doctest::Approx(0.5 * 18e9 + 2 * 2 * 18e9 / 8));
    CHECK(use("dp=4,zero=2,offload", 4).optimizer == 0);
    CHECK(use("tp=8").weights == doctest::Approx(2 * 18e9 / 8));
    CHECK(use("pp=2").weights == doctest::Approx(2 * 18e9 / 2));
}

TEST_CASE("activations: Korthikanti's table 2, sbh(34 + 5as/h) a layer") {
    const double sbh = 2048.0 * 12288, scores = 5.0 * 96 * 2048 / 12288;  // 80
    CHECK(use("dp=1").activations == doctest::Approx(8 * sbh * (34 + scores)));
    CHECK(use("tp=8").activations == doctest::Approx(8 * sbh * (10 + 24.0 / 8 + scores / 8)));
    CHECK(use("tp=8,sp").activations == doctest::Approx(8 * sbh * (34 + scores) / 8));
    CHECK(use("tp=8,sp,recompute=selective").activations == doctest::Approx(8 * sbh * 34 / 8));
    CHECK(use("dp=1,recompute=full").activations == doctest::Approx(8 * 2 * sbh + sbh * (34 + scores)));
    CHECK(use("dp=1", 4).activations == doctest::Approx(4 * use("dp=1").activations));
    CHECK(use("ga=4", 4).activations == doctest::Approx(use("dp=1").activations));
    CHECK(use("cp=2").activations == doctest::Approx(use("dp=1").activations / 2));
}

TEST_CASE("the first stage holds as many micro-batches as there are stages") {
    CHECK(use("pp=4,mb=8", 8).activations == doctest::Approx(use("dp=1").activations));
    CHECK(use("pp=4,mb=2", 2).activations == doctest::Approx(use("dp=1").activations / 2));
    CHECK(use("pp=4,mb=8,vpp=2", 8).activations == doctest::Approx(use("dp=1").activations * (1 + 3.0 / 8)));
}

TEST_CASE("logits and the embedding are on the last stage") {
    ModelSize size = model();
    size.vocabulary = 50000;
    const MemoryUse memory = memory_use(size, 1, parse_execution_plan("pp=2"), 8, {1, 0});
    CHECK(memory.logits == doctest::Approx(2048 * 50000.0 * 6));
    const double embedding = 50000.0 * 12288;
    CHECK(memory.weights == doctest::Approx(2 * ((18e9 - embedding) / 2 + embedding)));
}

TEST_CASE("offloading fills the host") {
    CHECK(use("dp=8,zero=2,offload", 8).host == doctest::Approx(8 * 2e9 + 16 * 18e9));
    CHECK(memory_use(model(), 16, parse_execution_plan("dp=16,zero=2,offload"), 8).host ==
          doctest::Approx(8 * 2e9 + 16 * 18e9 / 2));
}

TEST_CASE("five measured rows calibrate the estimate for the others") {
    std::mt19937 random{11};
    std::normal_distribution<double> noise{0, 0.05};
    std::vector<Run> runs;
    for (const char* plan : {"tp=8", "tp=4,pp=2,mb=8", "tp=8,sp", "tp=8,recompute=full", "pp=8,mb=8", "dp=8,zero=1",
                             "dp=8,zero=3", "tp=2,dp=4,zero=1", "tp=4,dp=2,recompute=full", "pp=4,dp=2,mb=4"}) {
        Run run;
        run.plan = parse_execution_plan(plan);
        run.allocation.gpus = {8};
        run.batch = 8;
        run.memory = memory_use(model(), 8, run.plan, 8, {1.25, 4e9}).total() * std::exp(noise(random));
        runs.push_back(run);
    }
    const MemoryCalibration fitted = calibrate_memory(model(), std::span{runs}.first(5));
    for (const Run& run : std::span{runs}.subspan(5))
        CHECK(memory_use(model(), 8, run.plan, 8, fitted).total() == doctest::Approx(*run.memory).epsilon(0.15));
    CHECK(calibrate_memory(model(), {}) == MemoryCalibration{});
    CHECK(memory_use(model(), 8, runs[0].plan, 8, fitted).margin == 0);
    const MemoryCalibration one = calibrate_memory(model(), std::span{runs}.first(1));
    CHECK(memory_use(model(), 8, runs[0].plan, 8, one).total() == doctest::Approx(*runs[0].memory).epsilon(0.1));
}

TEST_CASE("measured memory that shrinks as the estimate grows does not make large plans fit") {
    std::vector<Run> runs;
    for (const char* plan : {"tp=8", "tp=4,pp=2,mb=8", "dp=8,zero=1", "dp=8,zero=3", "pp=4,dp=2,mb=4"}) {
        Run run;
        run.plan = parse_execution_plan(plan);
        run.allocation.gpus = {8};
        run.batch = 8;
        run.memory = 40e9 - 0.2 * memory_use(model(), 8, run.plan, 8, {1, 0}).total();
        runs.push_back(run);
    }
    CHECK(calibrate_memory(model(), runs).scale >= 0.5);
}
