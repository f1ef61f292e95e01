// SPDX-License-Identifier: Apache-2.0
#include "formats/profile/training_log.hpp"

#include "formats/profile/runs_file.hpp"
#include "lib/core/file.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace tpx;
using namespace tpx::formats;

namespace {

// The cells of the run in a log, with commas between them.
std::string run_in(const std::string& name) {
    const Table table = parse_training_log(read_file("testdata/profile/logs/" + name), name);
    std::string text;
    for (std::size_t i = 0; i < table.columns.size(); ++i)
        text += fmt::format("{}{}={}", i > 0 ? " " : "", table.columns[i], table.rows[0].cells[i]);
    return text;
}

}  // namespace

TEST_CASE("a log of Megatron-LM is a run") {
    const Table table = parse_training_log(read_file("testdata/profile/logs/megatron.log"), "megatron.log");
    const std::vector<Run> runs = read_runs(table, default_columns(table), {std::nullopt, 1, 4});
    REQUIRE(runs.size() == 1);
    CHECK(to_string(runs[0].plan) == "dp=4,tp=2,pp=2,mb=8,zero=1,recompute=selective");
    CHECK(runs[0].batch == 64);
    CHECK(runs[0].allocation.total() == 16);
    CHECK(runs[0].seconds == doctest::Approx(1.5345));  // of the last three: the first two warm up
    CHECK(*runs[0].memory == 12232.0 * (1 << 20));
}

TEST_CASE("logs of torchtitan have tokens per second and GPU, meshes and memory") {
    // 64 samples of 2048 tokens on 8 GPUs; by the times beside the lines, steps took 47 to 49 ms.
    CHECK(run_in("torchtitan.log") ==
          "accumulation=1 batch=64 dp=8 recompute=selective zero=3 memory=1438814044 seconds=0.0471195");
    // 48 samples of 4096 tokens on 32 GPUs.
    CHECK(run_in("titan-colours.log") ==
          "accumulation=6 batch=48 cp=1 dp=8 pp=2 tp=2 zero=3 memory=16600048599 seconds=4.2935");
    CHECK_THROWS_WITH_AS(parse_training_log("step: 1  tps: 5\nstep: 2  tps: 5\nstep: 3  tps: 5\n", "log"),
                         "log: it has tokens per second, but not the batch size and sequence length of a step", Error);
}

TEST_CASE("logs of DeepSpeed have samples per second, or the parts of a step") {
    CHECK(run_in("deepspeed.log") == "accumulation=2 batch=8 dp=1 gpus=1 zero=2 memory=719407022 seconds=0.143328");
    CHECK(run_in("deepspeed-parts.log") == "seconds=0.02265");
    // Without the samples of a step it is a rate, and the model says how many they are.
    const std::string line = "CurrSamplesPerSec=40.0, MemAllocated=0.1GB\n";
    const Table table = parse_training_log(line + line + line, "log");
    CHECK(table.columns == std::vector<std::string>{"rate"});
    CHECK(read_runs(table, default_columns(table), {8, 1, 4})[0].seconds == doctest::Approx(0.2));
}

TEST_CASE("the Trainer of Hugging Face says its batch, and its bar or its end how long steps take") {
    CHECK(run_in("trainer.log") == "accumulation=2 batch=8 dp=1 seconds=0.115741");
    CHECK(run_in("trainer-quiet.log") == "accumulation=2 batch=8 dp=1 seconds=0.08575");
}

TEST_CASE("PyTorch Lightning: bars of epochs, not of validation, and its profiler") {
    CHECK(run_in("lightning.log") == "seconds=0.358423");
    CHECK(run_in("lightning-profiler.log") == "seconds=0.0088248");
}

TEST_CASE("logs of NeMo have seconds and memory") {
    CHECK(run_in("nemo.log") == "batch=4 memory=70833405952 seconds=2.012");
}

TEST_CASE("progress bars have seconds a step or steps a second") {
    const auto seconds = [](const char* text) {
        const Table table = parse_training_log(text, "log");
        return parse_number(table.rows[0].cells[table.find("seconds")]);
    };
    CHECK(seconds(" 1%| | 1/100 [9.00s/it]\r 2%| | [1.25s/it]\r 3%| | [1.50s/it]\r") == doctest::Approx(1.5));
    CHECK(seconds("[2.00it/s]\n[4.00it/s]\n[4.00it/s]\n") == doctest::Approx(0.25));
    CHECK_THROWS_WITH_AS(parse_training_log("nothing\n", "log"),
                         "log: 0 steps with times are in it; at least 3 are needed", Error);
}

TEST_CASE("files in every form that is known are read") {
    for (const char* file : {"testdata/profile/runs.csv", "testdata/profile/runs.json"}) {
        const Table table = parse_table(read_file(file), file);
        CHECK(read_runs(table, default_columns(table), {32, 2, 4}).size() >= 3);
    }
}
