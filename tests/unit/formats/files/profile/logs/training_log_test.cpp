// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/training_log.hpp"

#include "formats/files/profile/logs/log_line.hpp"
#include "formats/files/profile/logs/log_text.hpp"
#include "formats/files/profile/runs_file.hpp"
#include "lib/core/file.hpp"
#include "tests/unit/formats/files/profile/log_rows.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>

using namespace tpx;
using namespace tpx::formats;

namespace {

RunsTable runs_in(const std::string& name) { return runs_of(read_file("testdata/profile/logs/" + name)); }

std::string run_in(const std::string& name) {
    const RunsTable runs = runs_in(name);
    CHECK(runs.table.rows.size() == 1);
    return cells(runs);
}

}  // namespace

TEST_CASE("a log of Megatron-LM is a run") {
    const RunsTable table = runs_in("megatron.log");
    const std::vector<Run> runs = read_runs(table.table, default_columns(table.table), {std::nullopt, 1, 4});
    REQUIRE(runs.size() == 1);
    CHECK(to_string(runs[0].plan) == "dp=4,tp=2,pp=2,mb=8,zero=1,recompute=selective");
    CHECK(runs[0].batch == 64);
    CHECK(runs[0].allocation.total() == 16);
    CHECK(runs[0].seconds == doctest::Approx(1.5345));  // from the last three steps: the first two warm up
    CHECK(*runs[0].memory == 12232.0 * (1 << 20));
}

TEST_CASE("Megatron-LM under srun: lines of many ranks, a restart, and a truncated line") {
    // Steps 40 to 80 of the first attempt, 100 and 120 of the second.
    CHECK(
        run_in("megatron-srun.log") ==
        "parameters=46700000000 gpus=64 dp=8 tp=2 pp=4 ep=8 vpp=2 micro_batch=1 recompute=selective zero=1 sequence=1 "
        "batch=256 sequence_length=4096 seconds=6.3471 rate=40.3334 memory=64208502784 steps=100 dropped_steps=40");
}

TEST_CASE("a run that is out of memory and one with other settings after it are two rows") {
    const RunsTable runs = runs_in("megatron-oom.log");
    REQUIRE(runs.table.rows.size() == 2);
    CHECK(cells(runs, 0) ==
          "gpus=8 dp=4 tp=2 micro_batch=1 zero=1 sequence=1 batch=32 sequence_length=4096 seconds=OOM");
    CHECK(
        cells(runs, 1) ==
        "gpus=8 dp=4 tp=2 micro_batch=1 recompute=full zero=1 sequence=1 batch=32 sequence_length=4096 seconds=3.18335 "
        "rate=10.0523 memory=73517760512 steps=8 dropped_steps=2");
    const RunRows rows = read_run_rows(runs.table, default_columns(runs.table), {std::nullopt, 1, 4, 4096});
    CHECK(rows.runs.size() == 1);
    CHECK(rows.failed.size() == 1);
}

TEST_CASE("Megatron Bridge lists settings without the number of GPUs") {
    CHECK(run_in("bridge.log") ==
          "tp=4 pp=2 cp=2 micro_batch=1 zero=1 sequence=1 batch=128 sequence_length=8192 seconds=3.7 rate=34.5946 "
          "memory=53102000000 steps=45 dropped_steps=5");
    const RunsTable runs = runs_of(read_file("testdata/profile/logs/bridge.log"), {.gpus = 64, .per_host = 8});
    CHECK(cells(runs).starts_with("gpus=64 per_host=8 dp=4 tp=4 pp=2 cp=2 "));
}

TEST_CASE("logs of torchtitan have tokens per second per GPU, meshes and memory") {
    // 64 samples of 2048 tokens on 8 GPUs; by the times beside the lines, steps took 47 to 49 ms.
    CHECK(run_in("torchtitan.log") ==
          "gpus=8 dp=8 micro_batch=8 recompute=selective zero=3 batch=64 sequence_length=2048 seconds=0.0471195 "
          "rate=1358.25 memory=1438814044 steps=3 dropped_steps=2");
    // 48 samples of 4096 tokens on 32 GPUs.
    CHECK(run_in("titan-colors.log") ==
          "gpus=32 dp=8 tp=2 pp=2 micro_batch=1 zero=3 sequence=1 batch=48 sequence_length=4096 seconds=4.29951 "
          "rate=11.1641 memory=16600048599 steps=2 dropped_steps=2");
    // 8 samples of 8192 tokens at 6201 tokens per second on each of 8 GPUs.
    CHECK(run_in("torchtitan-llama.log") ==
          "model=llama3 8B parameters=8030261248 gpu=NVIDIA H100 gpus=8 dp=4 tp=2 micro_batch=1 recompute=full zero=3 "
          "sequence=1 batch=8 sequence_length=8192 seconds=1.32108 rate=6.05566 memory=65895535739 steps=90 "
          "dropped_steps=10");
    // 131072 tokens at 4030 tokens per second on each of 16 GPUs; 32 samples of 4096 tokens.
    CHECK(run_in("torchtitan-tokens.log") ==
          "model=deepseek_v3 16B parameters=15706484224 gpu=NVIDIA B200 gpus=16 dp=4 pp=2 cp=2 ep=4 vpp=2 "
          "micro_batches=8 recompute=selective zero=3 batch=32 sequence_length=4096 seconds=2.03275 rate=15.7422 "
          "memory=82946555904 steps=4 dropped_steps=2");
}

TEST_CASE("logs of DeepSpeed have samples per second, or the parts of a step") {
    CHECK(run_in("deepspeed.log") ==
          "gpus=1 dp=1 micro_batch=4 zero=2 batch=8 seconds=0.159196 rate=50.2524 memory=719407022 steps=2 "
          "dropped_steps=2");
    CHECK(run_in("deepspeed-parts.log") == "seconds=0.020035 steps=6 dropped_steps=2");
    // Its steps last 50 ms.
    CHECK(run_in("deepspeed-offload.log") ==
          "gpus=1 dp=1 micro_batch=4 zero=3 offload=1 batch=64 seconds=0.0501695 rate=1275.68 memory=547608330 steps=8 "
          "dropped_steps=0");
    CHECK(run_in("deepspeed-pipe.log") ==
          "parameters=406286336 gpus=8 dp=4 pp=2 micro_batch=2 zero=1 batch=64 seconds=0.833 rate=76.8307 steps=90 "
          "dropped_steps=10");
    // Versions of 2022 have no names for epoch and step.
    std::string old;
    for (const int step : {10, 20, 30, 40})
        old += fmt::format(
            "[2022-08-29 06:58:56,176] [INFO] [timer.py:198:stop] 0/{}, RunningAvgSamplesPerSec=9.5, "
            "CurrSamplesPerSec=10.0, MemAllocated=0.36GB, MaxMemAllocated=15.06GB\n",
            step);
    CHECK(cells(runs_of(old)) == "rate=10 memory=16170551869 steps=4 dropped_steps=0");
    // Without the samples per step, the row has a rate, and the model provides the number of samples.
    const std::string line = "CurrSamplesPerSec=40.0, MemAllocated=0.1GB\n";
    const RunsTable runs = runs_of(line + line + line);
    CHECK(runs.table.columns == std::vector<std::string>{"label", "rate", "steps", "dropped_steps"});
    CHECK(read_runs(runs.table, default_columns(runs.table), {8, 1, 4})[0].seconds == doctest::Approx(0.2));
}

TEST_CASE("logs of Hugging Face's Trainer have batch sizes, and step times in progress bars or at the end") {
    CHECK(run_in("trainer.log") ==
          "parameters=115008 gpus=1 dp=1 micro_batch=4 batch=8 seconds=0.115473 rate=69.28 steps=9 dropped_steps=2");
    CHECK(run_in("trainer-quiet.log") ==
          "parameters=115008 gpus=1 dp=1 micro_batch=4 batch=8 seconds=0.08575 rate=93.2945 steps=12 dropped_steps=0");
}

TEST_CASE("the rates of a resumed Trainer's bar count only once the steps before the restart hardly affect them") {
    const std::string log = read_file("testdata/profile/logs/trainer-resumed.log");  // 16 steps in 4.66 s
    CHECK(run_in("trainer-resumed.log").find(" seconds=0.29125 ") != std::string::npos);
    const std::string quiet = log.substr(log.find("  0%|"));
    CHECK(cells(runs_of(quiet)).starts_with("seconds=0.29125 "));
    // Earlier versions, whose rates at the end include the steps before the restart: 4.66 s * 67.81 = 316.
    std::string earlier = log;
    earlier.replace(earlier.find("'3.433'"), 7, "'67.81'");
    CHECK(cells(runs_of(earlier)).find(" seconds=0.29125 ") != std::string::npos);
    CHECK(cells(runs_of(earlier.substr(log.find("  0%|")))).starts_with("seconds=0.29125 "));
    // tqdm's moving average, redrawn after each step of 2 s; 1,000 steps were done before.
    std::string bars;
    double steps = 0, seconds = 0;
    for (int i = 1; i <= 80; ++i) {
        steps = 0.3 * (i == 1 ? 1001 : 1) + 0.7 * steps;
        seconds = 0.3 * 2 + 0.7 * seconds;
        const double each = seconds / steps;
        bars += each < 1 ? fmt::format(" 1%| | {}/2000 [00:01<00:01, {:.2f}it/s]\r", 1000 + i, 1 / each)
                         : fmt::format(" 1%| | {}/2000 [00:01<00:01, {:.2f}s/it]\r", 1000 + i, each);
    }
    CHECK(cells(runs_of(bars)).starts_with("seconds=2 "));
    CHECK(cells(runs_of("***** Running training *****\n  Continuing training from global step 1000\n" + bars))
              .starts_with("seconds=2 "));
}

TEST_CASE("the evaluation of a failed attempt of the Trainer does not count for the next one") {
    const std::string start = "***** Running training *****\n  Total optimization steps = 12\n";
    const std::string end = "{'train_runtime': 12.0, 'train_steps_per_second': 1.0, 'epoch': 1.0}\n";
    CHECK(cells(runs_of(start + "{'eval_runtime': 5.0, 'epoch': 0.5}\n" + start + end)) ==
          "seconds=1 steps=12 dropped_steps=0");
}

TEST_CASE("a progress bar of the Trainer that was updated only once has no step times") {
    CHECK_THROWS_WITH_AS(
        runs_of(" 50%|█  | 50/100 [01:40<01:40,  2.00s/it]\n"),
        "log: no step times: the progress bar was updated only once, and the log has no 'train_runtime'", Error);
    CHECK_THROWS_WITH_AS(
        runs_of("  Continuing training from global step 49\n 50%|█  | 50/100 [00:02<01:40, 25.00it/s]\n"
                " 51%|█  | 51/100 [00:04<01:38, 17.00it/s]\n"),
        "log: no step times: the progress bar shows too few steps after the restart, and the log has no "
        "'train_runtime'",
        Error);
}

TEST_CASE("progress bars of evaluation are not steps of the Trainer") {
    std::string text = "***** Running training *****\n  Total optimization steps = 12\n";
    std::string bars;
    for (int step = 1; step <= 12; ++step) {
        bars += fmt::format(" {}%|█  | {}/12 [00:01<00:01,  1.00it/s]\r", 8 * step, step);
        if (step % 6 == 0)
            for (int i = 1; i <= 27; ++i) bars += fmt::format(" {}%|█  | {}/27 [00:01<00:01, 40.00it/s]\r", 3 * i, i);
    }
    CHECK(cells(runs_of(text + bars)) == "seconds=1 steps=10 dropped_steps=2");
    CHECK(cells(runs_of(bars)) == "seconds=1 steps=10 dropped_steps=2");  // without --log_level info
}

TEST_CASE("runs of different models or GPU types are not combined") {
    const auto run = [](std::string_view model, std::string_view gpu) {
        std::string text =
            fmt::format("Starting job: x\n{} capacity: {} with 95.04GiB memory\n", gpu.empty() ? "no" : "CUDA", gpu);
        if (!model.empty()) text += fmt::format("Model {} size: 1,000 total parameters\n", model);
        for (int i = 1; i <= 4; ++i) text += fmt::format("step: {}  tps: 5\n", i);
        return text;
    };
    const auto rows = [](const std::string& text) { return parse_training_log(text, "log").runs.size(); };
    CHECK(rows(run("a", "X") + run("b", "X")) == 2);
    CHECK(rows(run("a", "X") + run("a", "Y")) == 2);
    CHECK(rows(run("a", "X") + run("a", "X")) == 1);
    CHECK(rows(run("a", "X") + run("", "X")) == 1);
}

TEST_CASE("PyTorch Lightning: progress bars of epochs, not of validation, and its profiler") {
    CHECK(run_in("lightning.log") == "seconds=0.357147 steps=2 dropped_steps=2");
    CHECK(run_in("lightning-profiler.log") == "seconds=0.0088248 steps=40 dropped_steps=0");
}

TEST_CASE("logs of NeMo have seconds and memory") {
    CHECK(run_in("nemo.log") == "batch=4 seconds=2.011 rate=1.98906 memory=70833405952 steps=2 dropped_steps=2");
    CHECK(run_in("nemo1.log") ==
          "gpus=16 per_host=8 dp=2 tp=4 pp=2 micro_batch=1 recompute=selective zero=1 sequence=1 batch=128 "
          "sequence_length=4096 seconds=5.428 rate=23.5814 steps=18 dropped_steps=2");
    CHECK(run_in("nemo2.log") ==
          "gpus=8 dp=2 tp=2 cp=2 batch=128 seconds=6.212 rate=20.6053 memory=127785762816 steps=18 dropped_steps=2");
    // If no line contains the batch size, it follows from the sample counts of two lines.
    const auto line = [](int step, int samples) {
        return fmt::format(
            "Epoch 0: : 1%|  | {}/9 [00:01<00:09, global_step={}.000, consumed_samples={}.0, "
            "train_step_timing in s=2.5]\r",
            step + 1, step, samples);
    };
    CHECK(cells(runs_of(line(0, 16) + line(1, 32) + line(2, 48))) ==
          "batch=16 seconds=2.5 rate=6.4 steps=1 dropped_steps=2");
}

TEST_CASE("progress bars have seconds per step or steps per second") {
    const auto seconds = [](const char* text) {
        const RunsTable runs = runs_of(text);
        return parse_number(runs.table.rows[0].cells[runs.table.find("seconds")]);
    };
    CHECK(seconds(" 1%| | 1/100 [9.00s/it]\r 2%| | 2/100 [1.25s/it]\r 3%| | 3/100 [1.50s/it]\r") ==
          doctest::Approx(1.5));
    CHECK(seconds("| 1/9 [2.00it/s]\n| 2/9 [4.00it/s]\n| 3/9 [4.00it/s]\n") == doctest::Approx(0.25));
    CHECK(step_of_bar("Epoch 1:  72%|███▏  | 28/39 [00:10<00:04,  2.71it/s]") == 67);
}

TEST_CASE("a log without steady steps is reported") {
    CHECK_THROWS_WITH_AS(
        runs_of("nothing\n"),
        "log: not a training log: found no step times of Megatron-LM, Megatron Bridge, NeMo, torchtitan, "
        "DeepSpeed, PyTorch Lightning, Colossal-AI, torchtune, nanotron, LitGPT, Composer or Hugging Face's Trainer, "
        "and "
        "no metrics of W&B, TensorBoard, MLflow or LLaMA-Factory",
        Error);
    CHECK_THROWS_WITH_AS(runs_of(" iteration 1/ 9 | elapsed time per iteration (ms): 5.0 |\n"),
                         "log: no step times after warm-up (1 report in all); log more steps, or log more often",
                         Error);
}

TEST_CASE("a number at the end of a truncated line is not read") {
    std::string text;
    for (int i = 1; i <= 4; ++i)
        text += fmt::format(" iteration {}/ 9 | elapsed time per iteration (ms): 500.0 |\n", i);
    CHECK(cells(runs_of(text + " iteration 5/ 9 | elapsed time per iteration (ms): 5")) ==
          "seconds=0.5 steps=2 dropped_steps=2");
    CHECK(cells(runs_of(text + " iteration 5/ 9 | elapsed time per iteration (ms): 5\n")) ==
          "seconds=0.5 steps=3 dropped_steps=2");
}

TEST_CASE("a lower step number is a restart, which warms up again, even if no line says so") {
    std::string text;
    for (const int step : {1, 2, 3, 4, 5, 6, -4, -5, 6, 7, 8})
        text += fmt::format(" iteration {}/ 9 | elapsed time per iteration (ms): {} |\n", std::abs(step),
                            step < 3 ? 900 : 100);
    CHECK(cells(runs_of(text)) == "seconds=0.1 steps=7 dropped_steps=4");
}

TEST_CASE("if the batch size ramps up, the last one is used, and only its steps count") {
    std::string text;
    for (int i = 1; i <= 15; ++i)
        text += fmt::format(" iteration {:8}/ 99 | elapsed time per iteration (ms): {}.0 | global batch size: {:5} |\n",
                            i, 100 * (1 + i / 4), 16 * (1 + i / 4));
    CHECK(cells(runs_of(text)) == "batch=64 seconds=0.4 rate=160 steps=2 dropped_steps=2");
}

TEST_CASE("prefixes of lines are removed") {
    const auto text = [](std::string_view line) { return std::string{parse_log_line(line).text}; };
    CHECK(text(" 0: [rank3]:[titan] 2026-02-11 01:22:11,584 step: 1") == "step: 1");
    CHECK(text("[2026-11-22 12:04:14,166] [INFO] [config.py:678:print]   world_size ... 1") == "world_size ... 1");
    CHECK(text("pretraining/0 [default0]:Training epoch 0") == "Training epoch 0");
    CHECK(text("worker-1: [2026-01-01 00:00:00] x") == "x");
    CHECK(text("2025-10-17T11:32:59+08:00 x") == "x");
    CHECK(text("worker1:   tensor_model_parallel_size ...... 4") == "tensor_model_parallel_size ...... 4");
    CHECK(text("worker1: using world size: 32") == "using world size: 32");
    CHECK(text("10.0.0.1: [2026-01-01 00:00:00] x") == "x");
    CHECK(text("gpu01.cluster:   \"stage\": 3,") == "\"stage\": 3,");
    CHECK(text("master:   pipeline_model_parallel_size .... 2") == "pipeline_model_parallel_size .... 2");
    CHECK(text("[1,0]<stdout>: x") == "x");
    CHECK(text("[1,0]<stdout>:x") == "x");
    CHECK(text("(RayTrainWorker pid=123, ip=10.0.0.2) x") == "x");
    CHECK(text("seq_length: 2048") == "seq_length: 2048");
    CHECK(text("step:  1  loss: 2") == "step:  1  loss: 2");
    CHECK(text("(min, max) time across ranks (ms):") == "(min, max) time across ranks (ms):");
    CHECK(parse_log_line("[rank3]: x").stream == "rank3");
    CHECK(parse_log_line("13: x").stream == "13");
    CHECK(parse_log_line("[1,3]<stderr>: x").stream == "1,3");
    CHECK(parse_log_line("(RayTrainWorker pid=123) x").stream == "RayTrainWorker pid=123");
    const LogLine json = parse_log_line("    \"stage\": 3, ");
    CHECK(json.key == "stage");
    CHECK(json.value == "3");
    const LogLine setting = parse_log_line("  tensor_model_parallel_size: 8  (Mcore default: 1)");
    CHECK(setting.key == "tensor_model_parallel_size");
    CHECK(setting.value == "8");
    CHECK(without_escapes("\x1b[38;2;180;60;0mred\x1b[0m\x1b[K!") == "red!");
    CHECK(number_after("tps: 1,234,567  x", "tps:") == 1234567);
    CHECK(number_after("global_step=2e+3, x", "step=") == 2000);
    CHECK(number_after("a=5,b=6", "a=") == 5);
}

TEST_CASE("lines of any length and any bytes are handled") {
    std::string text(300'000, 'x');
    text += "\n iteration 1/ 9 | elapsed";
    for (int i = 0; i < 100'000; ++i) text += static_cast<char>(i * 37);
    CHECK_THROWS_AS(runs_of(text), Error);
    TrainingLogReader reader;
    for (const char c : read_file("testdata/profile/logs/megatron.log")) reader.read({&c, 1});
    const TrainingLog log{"log", reader.finish()};
    CHECK(cells(runs_table({&log, 1}, {})) == run_in("megatron.log"));
}

TEST_CASE("rows of several models, GPU types or sequence lengths cannot form a table for one model") {
    const auto read = [](std::string_view text) {
        const Table table = parse_table(text, "t");
        return read_runs(table, default_columns(table), {8, 1, 4, 2048}).size();
    };
    CHECK(read("plan,seconds,model,gpu,sequence_length,steps\ndp=2,1,a,H100,2048,9\ndp=4,1,a,H100,2048,9\n") == 2);
    CHECK_THROWS_WITH_AS(read("plan,seconds,model\ndp=2,1,a\ndp=4,1,b\n"),
                         "t:3: column 'model': rows mix 'a' and 'b'; select one with [where] in the --columns file",
                         Error);
    CHECK_THROWS_AS(read("plan,seconds,gpu\ndp=2,1,A100\ndp=4,1,H100\n"), Error);
    CHECK_THROWS_WITH_AS(read("plan,seconds,sequence_length\ndp=2,1,4096\n"),
                         "t:2: column 'sequence_length': sequence length is 4096, but the model has sequence = 2048",
                         Error);
}

TEST_CASE("files in every known form are read") {
    for (const char* file : {"testdata/profile/runs.csv", "testdata/profile/runs.json"}) {
        const Table table = parse_table(read_file(file), file);
        CHECK(read_runs(table, default_columns(table), {32, 2, 4}).size() >= 3);
    }
}
