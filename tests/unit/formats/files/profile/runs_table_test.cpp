// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/runs_table.hpp"

#include "formats/files/profile/runs_file.hpp"
#include "lib/core/file.hpp"
#include "tests/unit/formats/files/profile/log_rows.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace tpx;
using namespace tpx::formats;

TEST_CASE("tokens per second need the number of GPUs, and more to be seconds") {
    const std::string steps = "step: 1  tps: 5\nstep: 2  tps: 5\nstep: 3  tps: 5\n";
    CHECK_THROWS_WITH_AS(runs_of(steps),
                         "log: number of GPUs is unknown (the log reports tokens per second per GPU); pass --gpus",
                         Error);
    CHECK(cells(runs_of(steps, {.gpus = 4})) == "gpus=4 dp=4 tokens_per_second=20 steps=1 dropped_steps=2");
    CHECK(cells(runs_of(steps, {.gpus = 4, .batch = 2, .sequence_length = 30})) ==
          "gpus=4 dp=4 batch=2 sequence_length=30 seconds=3 rate=0.666667 steps=1 dropped_steps=2");
}

TEST_CASE("--with replaces the whole plan of a log") {
    const RunsTable runs = runs_of(read_file("testdata/profile/logs/torchtitan.log"),
                                   {.model = "debug", .gpu = "H100", .plan = "tp=2,dp=4", .per_host = 8});
    CHECK(cells(runs).starts_with(
        "model=debug gpu=H100 gpus=8 per_host=8 batch=64 sequence_length=2048 plan=tp=2,dp=4 "));
    const std::vector<Run> read = read_runs(runs.table, default_columns(runs.table), {std::nullopt, 1, 4});
    REQUIRE(read.size() == 1);
    CHECK(to_string(read[0].plan) == "dp=4,tp=2");
    // Neither experts nor chunks remain.
    const RunsTable srun = runs_of(read_file("testdata/profile/logs/megatron-srun.log"), {.plan = "dp=64"});
    CHECK(cells(srun).starts_with("parameters=46700000000 gpus=64 batch=256 sequence_length=4096 plan=dp=64 "));
}

TEST_CASE("degrees that do not divide GPUs or layers are errors") {
    std::string text = "  tensor_model_parallel_size ....... 4\n";
    for (int i = 1; i <= 4; ++i)
        text += fmt::format(" iteration {}/ 9 | elapsed time per iteration (ms): 500.0 |\n", i);
    CHECK_THROWS_WITH_AS(runs_of(text, {.gpus = 6}), "log: --gpus 6 is not divisible by tp=4; use a multiple of 4",
                         Error);
    CHECK_THROWS_AS(runs_of(text, {.gpus = 1}), Error);
    CHECK_THROWS_WITH_AS(runs_of(text, {.placement = "2x3"}),
                         "log: --on 2x3 has 6 GPUs, which are not divisible by tp=4; use a multiple of 4", Error);
    const std::string stages = "  pipeline_model_parallel_size ....... 2\n";
    CHECK_THROWS_WITH_AS(runs_of("  world_size ...... 12\n" + stages + text),
                         "log: 12 GPUs are not divisible by tp=4,pp=2; use a multiple of 8 with --gpus", Error);
    CHECK(cells(runs_of(text, {.gpus = 8})) == "gpus=8 dp=2 tp=4 seconds=0.5 steps=2 dropped_steps=2");
    const std::string chunks = stages + "  num_layers_per_virtual_pipeline_stage ...... 4\n  num_layers ...... 30\n";
    CHECK_THROWS_WITH_AS(runs_of(text + chunks, {.gpus = 8}),
                         "log: 30 layers are not divisible by pp=2 stages with chunks of 4; pass --with", Error);
    CHECK(cells(runs_of(text + chunks + "  num_layers ...... 24\n", {.gpus = 8})) ==
          "gpus=8 dp=1 tp=4 pp=2 vpp=3 seconds=0.5 steps=2 dropped_steps=2");
    // A batch of tokens that is not a whole number of samples is unknown.
    std::string titan =
        "Training starts at step 1 ... sequence length 4096 ... 8192 tokens/DP rank, 131000 tokens per train step\n";
    for (int i = 1; i <= 3; ++i) titan += fmt::format("step: {}  tps: 5\n", i);
    CHECK(cells(runs_of(titan, {.gpus = 2})) ==
          "gpus=2 dp=2 sequence_length=4096 tokens_per_second=10 steps=1 dropped_steps=2");
}

TEST_CASE("--on sets the number of GPUs") {
    const std::string bridge = read_file("testdata/profile/logs/bridge.log");
    CHECK(cells(runs_of(bridge, {.placement = "8x8"})).starts_with("dp=4 tp=4 pp=2 cp=2 "));
    CHECK(
        cells(runs_of(read_file("testdata/profile/logs/torchtitan.log"), {.placement = "2x8"})).starts_with("dp=16 "));
}

TEST_CASE("a table of runs is written as CSV and read again") {
    const Table table{"t", {"label", "plan"}, {{1, {"a, \"b\"", "dp=8,zero=1"}}, {2, {"", "dp=2"}}}};
    CHECK(csv_text(table) == "label,plan\n\"a, \"\"b\"\"\",\"dp=8,zero=1\"\n,dp=2\n");
    const Table again = parse_table(csv_text(table), "t");
    CHECK(again.columns == table.columns);
    CHECK(again.rows[0].cells == table.rows[0].cells);
    const Table json = parse_table(R"({"schema": "x", "runs": [{"plan": "dp=2", "seconds": 1.5}]})", "t");
    CHECK(json.rows.size() == 1);
    CHECK(json.columns == std::vector<std::string>{"plan", "seconds"});
    CHECK_THROWS_WITH_AS(parse_table(R"({"runs": {"a": {}}})", "t"), "t: \"runs\" is not an array", Error);
}
