// SPDX-License-Identifier: Apache-2.0
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "tests/unit/formats/files/profile/log_rows.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <utility>

using namespace tpx;
using namespace tpx::formats;

namespace {

std::string console_run(const std::string& name) {
    const RunsTable runs = runs_of(read_file("testdata/profile/logs/" + name));
    CHECK(runs.table.rows.size() == 1);
    return cells(runs);
}

std::string rows_of(const std::string& log) {
    const RunsTable runs = runs_of(log);
    std::string text;
    for (std::size_t row = 0; row < runs.table.rows.size(); ++row) text += cells(runs, row) + "\n";
    return text;
}

std::string litgpt_pass(int number, int passes, double milliseconds) {
    return fmt::format("Epoch 1 | iter {} step {} | loss train: 3.1, val: n/a | iter time: {:.2f} ms{}\n", number,
                       number / passes, milliseconds, number % passes == 0 ? " (step)" : "");
}

}  // namespace

TEST_CASE("nanotron's log has the plan, and a batch of samples even if its steps count tokens") {
    CHECK(console_run("nanotron.log") ==
          "gpus=16 dp=4 tp=2 pp=2 micro_batch=3 recompute=full zero=1 sequence=1 batch=96 sequence_length=4096 "
          "seconds=1.305 rate=73.5632 steps=10 dropped_steps=2");
    CHECK(console_run("nanotron-2024.log") ==
          "gpus=1 dp=1 micro_batch=4 zero=0 batch=8 sequence_length=256 seconds=0.2155 rate=37.123 memory=2310000000 "
          "steps=8 dropped_steps=2");
}

TEST_CASE("nanotron's expert parallelism multiplies the GPUs") {
    std::string text =
        "Config(general=GeneralArgs(run='a'), parallelism=ParallelismArgs(dp=2, pp=1, tp=2, expert_parallel_size=4))\n";
    for (int i = 1; i <= 4; ++i)
        text += fmt::format("iteration: {} / 9 | consumed_tokens: 1M | time_per_iteration_ms: 1.5K | \n", i);
    CHECK(cells(runs_of(text)) == "gpus=16 dp=8 tp=2 ep=4 seconds=1.5 steps=2 dropped_steps=2");
}

TEST_CASE("a step of LitGPT is the sum of its passes, if all are printed") {
    CHECK(console_run("litgpt.log") ==
          "micro_batch=4 batch=16 seconds=0.52 rate=30.7692 memory=21300000000 steps=4 dropped_steps=2");
    CHECK_THROWS_WITH_AS(
        console_run("litgpt-pretrain.log"),
        "log: no step times: the log does not contain all 4 passes of each step; set train.log_interval to 1 and, for "
        "pretraining, global_batch_size to micro_batch_size times the number of GPUs",
        Error);
}

TEST_CASE("a pass of LitGPT counts only if the pass before it is printed, too") {
    std::string all, every_second;
    for (int i = 1; i <= 20; ++i) {
        all += litgpt_pass(i, 1, 50);
        if (i % 2 == 0) every_second += litgpt_pass(i, 1, 100);
    }
    CHECK(cells(runs_of(all)) == "seconds=0.05 steps=18 dropped_steps=2");
    CHECK_THROWS_AS(runs_of(every_second), Error);
    // A job that is resumed within a step.
    std::string resumed;
    for (int i = 7; i <= 24; ++i) resumed += litgpt_pass(i, 4, 50);
    CHECK(cells(runs_of(resumed)) == "seconds=0.2 steps=2 dropped_steps=2");
}

TEST_CASE("each run in a log of LitGPT has the settings before its first pass") {
    const auto run = [](int samples, int first, int last) {
        std::string text = fmt::format(
            " 'train': TrainArgs(save_interval=9,\n global_batch_size={},\n "
            "micro_batch_size=4,\n log_interval=1)}}\n",
            samples);
        for (int i = first; i <= last; ++i) text += litgpt_pass(i, samples / 4, 50);
        return text;
    };
    // The second job starts anew or resumes a checkpoint.
    for (const auto& [first, steps] : {std::pair{1, 2}, {33, 1}})
        CHECK(rows_of(run(16, 1, 40) + run(64, first, first + 63)) ==
              fmt::format("micro_batch=4 batch=16 seconds=0.2 rate=80 steps=8 dropped_steps=2\n"
                          "micro_batch=4 batch=64 seconds=0.8 rate=80 steps={} dropped_steps=2\n",
                          steps));
    const std::string failed = run(64, 1, 20) + "torch.OutOfMemoryError: CUDA out of memory\n";
    CHECK(rows_of(failed + run(16, 1, 40)) ==
          "micro_batch=4 batch=64 seconds=OOM\nmicro_batch=4 batch=16 seconds=0.2 rate=80 steps=8 dropped_steps=2\n");
}

TEST_CASE("only memory in GB after passes of LitGPT is that of LitGPT") {
    for (const std::string memory :
         {"Memory used: 40536 MiB of 81920 MiB\n", "| - Memory Used (MB): 40536\n", "Memory used: 40 GB\n"}) {
        std::string text = memory;
        for (int i = 1; i <= 9; ++i)
            text += fmt::format(
                " iteration {}/ 100 | elapsed time per iteration (ms): 500.0 | global batch size: 64 |\n", i);
        CHECK(cells(runs_of(text)).find("memory") == std::string::npos);
    }
}

TEST_CASE("LitGPT's metrics do not show how many passes a step has") {
    std::string text = "epoch,iter,iter_time,learning_rate,loss,step,tokens,total_tokens\n";
    for (int i = 1; i <= 9; ++i) text += fmt::format("0,{0},0.12,0.0002,2.1,{0},{1},{1}\n", i, 2048 * i);
    CHECK_THROWS_AS(runs_of(text), Error);
}

TEST_CASE("nanotron's metrics do not show whether the batch is in samples or in tokens") {
    std::string text;
    for (int i = 1; i <= 9; ++i)
        text += fmt::format(
            R"({{"consumed_tokens": {}, "time_per_iteration_ms": 1270.0, "tokens_per_sec": 309000, )"
            R"("tokens_per_sec_per_gpu": 19300, "global_batch_size": 393216, "iteration_step": {}, "_step": {}}})"
            "\n",
            393216 * i, i, i);
    CHECK(cells(runs_of(text)) == "seconds=1.27 steps=7 dropped_steps=2");
}

TEST_CASE("Composer's console blocks have rates, and its settings count with them") {
    CHECK(console_run("composer.log") ==
          "gpus=16 per_host=8 dp=16 micro_batch=8 recompute=full zero=3 batch=256 sequence_length=2048 seconds=2.31616 "
          "rate=110.528 memory=38123000000 steps=8 dropped_steps=2");
    CHECK_THROWS_WITH_AS(
        runs_of("[epoch=1][batch=1/625]:\n\t Train time/batch: 0\n\t Train loss/train/total: 2.1\n"),
        "log: no step times: Composer's SpeedMonitor logs rates only after window_size batches (default "
        "100); pass a longer log or lower window_size",
        Error);
}

TEST_CASE("a restart of Composer with other settings is another run") {
    const auto run = [](int hosts, double rate) {
        std::string text = fmt::format(
            "Config:\nglobal_train_batch_size: 256\ncomposer_version: 0.32.1\nnum_gpus_per_node: 8\nnum_nodes: {}\n"
            "tp_config:\n  tensor_parallel_degree: 2\nfsdp_config:\n  sharding_strategy: FULL_SHARD\n",
            hosts);
        for (int i = 101; i <= 106; ++i)
            text += fmt::format("[batch={}/4800]:\n\t Train time/batch: {}\n\t Train throughput/batches_per_sec: {}\n",
                                i, i - 1, rate);
        return text;
    };
    CHECK(rows_of(run(2, 0.5) + run(4, 1)) ==
          "gpus=16 per_host=8 dp=8 tp=2 zero=3 batch=256 seconds=2 rate=128 steps=4 dropped_steps=2\n"
          "gpus=32 per_host=8 dp=16 tp=2 zero=3 batch=256 seconds=1 rate=256 steps=4 dropped_steps=2\n");
}

TEST_CASE("the averages in all_results.json are not step times") {
    CHECK_THROWS_WITH_AS(
        console_run("all_results.json"),
        "log: no step times: the averages in this file include evaluations and, if the job was resumed, steps of "
        "earlier runs; pass the trainer_state.json in the same folder",
        Error);
    CHECK_THROWS_WITH_AS(runs_of("{\"train_runtime\": 48.7713, \"train_steps_per_second\": 1.969}\n"),
                         doctest::Contains("the averages in this file"), Error);
}
