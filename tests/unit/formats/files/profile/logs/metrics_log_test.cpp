// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/metric_record.hpp"
#include "formats/files/profile/logs/training_log.hpp"
#include "formats/settings/bare_floats.hpp"
#include "lib/core/file.hpp"
#include "tests/unit/formats/files/profile/log_rows.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

using namespace tpx;
using namespace tpx::formats;

namespace {

std::string lines_of(int count, auto&& line) {
    std::string text;
    for (int i = 1; i <= count; ++i) text += line(i) + "\n";
    return text;
}

// Twenty reports, 5 steps and 5 * `seconds` apart, with an evaluation of 17 s after every second one.
std::string llama_factory(double seconds, bool has_tokens) {
    double now = 1.3;
    const auto record = [&](int step, std::string_view loss) {
        const int whole = static_cast<int>(now);
        const std::string tokens =
            has_tokens ? fmt::format(R"(, "throughput": {:.2f}, "total_tokens": {})", step * 16384 / now, step * 16384)
                       : "";
        return fmt::format(R"({{"current_steps": {}, "total_steps": 100, "{}": 1.2, "epoch": 0.5, )"
                           R"("elapsed_time": "0:{:02}:{:02}", "remaining_time": "0:10:00"{}}})",
                           step, loss, whole / 60, whole % 60, tokens);
    };
    return lines_of(20, [&](int i) {
        now += 5 * seconds;
        std::string text = record(5 * i, "loss");
        if (i % 2 == 1) return text;
        now += 17;
        return text + "\n" + record(5 * i, "eval_loss");
    });
}

std::string refusal(const std::string& text) {
    try {
        return cells(runs_of(text));
    } catch (const std::exception& error) {
        return error.what();
    }
}

}  // namespace

TEST_CASE("W&B's history of Megatron-LM has step times, batch size and GPUs, but no degrees of parallelism") {
    const RunsTable runs = runs_of(lines_of(40, [](int i) {
        return fmt::format(
            R"({{"_step": {}, "_runtime": {}, "iteration-time": {}, "batch-size": 64, "world-size": 16, )"
            R"("lm loss": {}, "throughput": 210.0, "mem-reserved-bytes": 60000000000}})",
            i, 30 + i * 1.5, i < 4 ? 4.5 : 1.5, i == 20 ? "NaN" : "2.0");
    }));
    CHECK(cells(runs) ==
          "gpus=16 batch=64 seconds=1.5 rate=42.6667 memory=60000000000 steps=36 dropped_steps=4");  // not dp=16
    REQUIRE(runs.missing.size() == 4);
    CHECK(runs.missing[2].option == "--with");
}

TEST_CASE("metrics of torchtitan: its time of the first step is divided by the steps between two reports") {
    const std::string text = lines_of(11, [](int i) {
        return fmt::format(R"x({{"_step": {}, "throughput(tps)": 1280.0, "time_metrics/end_to_end(s)": {}, )x"
                           R"x("memory/max_reserved(GiB)": 1.5}})x",
                           i == 1 ? 1 : 10 * (i - 1), i == 1 ? 0.08 : 0.8);
    });
    CHECK(cells(runs_of(text)) == "seconds=0.8 memory=1610612736 steps=90 dropped_steps=10");
    const std::string rates =
        lines_of(20, [](int i) { return fmt::format(R"x({{"step": {}, "throughput(tps)": 1280.0}})x", i); });
    CHECK(refusal(rates).find("pass --gpus") != std::string::npos);
}

TEST_CASE("tokens per second of Composer and Megatron Bridge are of all GPUs") {
    const RunsTable runs = runs_of(
        lines_of(30, [](int i) { return fmt::format(R"({{"_step": {}, "throughput/tokens_per_sec": 20000}})", i); }));
    CHECK(cells(runs) == "tokens_per_second=20000 steps=27 dropped_steps=3");
}

TEST_CASE("the times of W&B's records are step times if they have the trainer's step; evaluations do not count") {
    double now = 10.25;
    const std::string text = lines_of(20, [&](int i) {
        now += 10.01;
        std::string line =
            fmt::format(R"({{"_step": {}, "_runtime": {}, "train/loss": 2, "train/global_step": {}}})", i, now, 5 * i);
        if (i % 2 == 1) return line;
        now += 30;
        return line + fmt::format("\n{{\"_runtime\": {}, \"eval/loss\": 2, \"train/global_step\": {}}}", now, 5 * i);
    });
    CHECK(cells(runs_of(text)) == "seconds=2.002 steps=85 dropped_steps=10");
    const std::string without_step =
        lines_of(20, [](int i) { return fmt::format(R"({{"_step": {}, "_runtime": {}.5, "loss": 2}})", i, i); });
    CHECK(refusal(without_step).find("no step times in its metrics: found neither") != std::string::npos);
}

TEST_CASE("LLaMA-Factory's times are exact with tokens, else in whole seconds, of which 60 are required") {
    CHECK(cells(runs_of(llama_factory(0.4, true))) == "seconds=0.400003 steps=85 dropped_steps=10");
    CHECK(cells(runs_of(llama_factory(3.37, false))) == "seconds=3.35 steps=60 dropped_steps=20");
    CHECK(refusal(llama_factory(0.4, false)).find("its times are whole seconds") != std::string::npos);
}

TEST_CASE("metrics in CSV: of NeMo with rows of validation, of W&B's page, and of several runs") {
    const std::string nemo =
        "consumed_samples,epoch,global_step,step,train_step_timing in s,val_loss\n" + lines_of(30, [](int i) {
            return fmt::format("{}.0,0,{}.0,{},{},{}", i * 128, i - 1, i - 1, i < 3 ? 9.5 : 6.08,
                               i % 10 == 0 ? "\n,0,,9,,10.2" : "");
        });
    CHECK(cells(runs_of(nemo)) == "batch=128 seconds=6.08 rate=21.0526 steps=27 dropped_steps=3");
    const auto rows = [](std::string_view end) {
        return lines_of(30, [&](int i) { return fmt::format("\"{}\",\"2.5\"{}", i, end); });
    };
    CHECK(cells(runs_of("\"Step\",\"llama - iteration-time\"\n" + rows(""))) == "seconds=2.5 steps=27 dropped_steps=3");
    CHECK(refusal("\"Step\",\"a - iteration-time\",\"b - iteration-time\"\n" + rows(",\"3.5\""))
              .find("several columns have 'iteration-time'") != std::string::npos);
    CHECK(refusal("epoch,step,train_loss\n0,49,2.3\n0,99,2.1\n").find("no step times in its metrics") !=
          std::string::npos);
}

TEST_CASE("trainer_state.json: evaluations and the steps before a restart do not count") {
    // 4.8763 s less three evaluations; the batch size is that of one process.
    CHECK(cells(runs_of(read_file("testdata/profile/logs/trainer_state.json"))) ==
          "micro_batch=4 seconds=0.115767 steps=30 dropped_steps=0");
    // Ten steps since the restart in 1.1906 s, less one evaluation of 0.4186 s.
    const std::string resumed = read_file("testdata/profile/logs/trainer_state-resumed.json");
    CHECK(cells(runs_of(resumed)) == "micro_batch=4 seconds=0.0772 steps=10 dropped_steps=0");
    // Older versions divide all steps by the time since the restart, and the sum of its losses by all steps.
    std::string older = resumed;
    older.replace(older.find("8.399"), 5, "33.60");
    older.replace(older.find("3.9001840591430663"), 18, "0.9750460147857666");
    CHECK(refusal(older).find("since the job was resumed") != std::string::npos);
    CHECK(refusal(resumed.substr(0, resumed.find("\"train_loss\""))).find("no train_runtime") != std::string::npos);
}

TEST_CASE("Colossal-AI's benchmarks print a rate of all replicas, and no degrees") {
    const RunsTable runs = runs_of(
        "num_samples: 96, dp_world_size: 4, flop_megatron: 12, flop: 4, avg_duration: 41.3, avg_throughput: 9.2978\n"
        "Throughput: 9.30 samples/sec, TFLOPS per GPU by Megatron: 1.00, TFLOPS per GPU: 1.00\n");
    CHECK(cells(runs) == "rate=9.2978");
}

TEST_CASE("metrics with names like columns of a table of runs are step times") {
    const auto csv = [](std::string_view header, auto&& row) {
        return cells(runs_of(fmt::format("{}\n", header) + lines_of(40, row)));
    };
    const auto seconds = [](int i) { return i < 4 ? 4.5 : 1.5; };
    CHECK(csv(R"("Step","perf/step_time","_step","_runtime")", [&](int i) {
              return fmt::format("{},{},{},{}", i, seconds(i), i, 30 + 1.6 * i);
          }) == "seconds=1.5 steps=36 dropped_steps=4");
    CHECK(csv("\xEF\xBB\xBF\"Step\",\"sunny-1 - train/iter_time_ms\",\"sunny-1 - train/iter_time_ms__MIN\"",
              [&](int i) { return fmt::format(R"("{}","{}","{}")", i, 1000 * seconds(i), 1); }) ==
          "seconds=1.5 steps=36 dropped_steps=4");
    CHECK(csv("step;steps_per_second", [&](int i) { return fmt::format("{};{}", i, i < 4 ? "0,1" : "0,5"); }) ==
          "seconds=2 steps=36 dropped_steps=4");
    CHECK(cells(runs_of(lines_of(40, [&](int i) {
              return fmt::format(R"({{"_step": {}, "eval/step_time": 9, "perf/step_time": {}}})", i, seconds(i));
          }))) == "seconds=1.5 steps=36 dropped_steps=4");
    CHECK(cells(runs_of(lines_of(40, [&](int i) {
              return fmt::format(
                  R"({{"step": {}, "val/step_time": 9, "timing": {{"step_time": {}}}, "optimizer.step_time": 0.1}})", i,
                  seconds(i));
          }))) == "seconds=1.5 steps=36 dropped_steps=4");
    // Time since the start, and tables of runs.
    CHECK(refusal("step,time_s\n" + lines_of(40, [](int i) { return fmt::format("{},{}", i, 2 * i); }))
              .find("no step times in its metrics") != std::string::npos);
    CHECK(refusal("tp,dp,step_time\n4,2,1.5\n4,4,1.2\n").find("not a training log") != std::string::npos);
}

TEST_CASE("averages of Hugging Face's Trainer over a whole job are no step times") {
    std::string text;
    for (int i = 1; i <= 200; ++i) {
        text += fmt::format("{{\"_step\": {}, \"_runtime\": {}, \"train/global_step\": {}, \"train/loss\": 2}}\n", i,
                            1.5 * i, i);
        if (i % 100 == 0)  // at the end of a job that was restarted once
            text += fmt::format(
                "{{\"_step\": {}, \"_runtime\": {}, \"train/global_step\": {}, "
                "\"train/train_steps_per_second\": 9}}\n",
                i, 1.5 * i, i);
    }
    CHECK(cells(runs_of(text)).starts_with("seconds=1.5 "));
}

TEST_CASE("MLflow and TensorBoard store a row for each value") {
    const std::string mlflow = lines_of(40, [](int i) {
        return fmt::format("loss,{},{},{}\nstep_time,{},{},{}", 4 - 0.1 * i, 1700000000000 + 2000 * i, i,
                           i < 4 ? 4.5 : 1.5, 1700000000000 + 2000 * i, i);
    });
    CHECK(cells(runs_of("key,value,timestamp,step\n" + mlflow)) == "seconds=1.5 steps=36 dropped_steps=4");
    const std::string tensorboard =
        "Wall time,Step,Value\n" + lines_of(40, [](int i) {
            return fmt::format("{:.4f},{},{}", 1700000000 + 15.0 * i + (i > 20 ? 300 : 0), 10 * i, 4 - 0.1 * i);
        });
    const RunsTable runs = runs_of(tensorboard);
    CHECK(cells(runs).starts_with("seconds=1.5 "));
    CHECK(runs.by_clock == std::vector<std::string>{"log"});
}

TEST_CASE("a trainer_state.json may have been written again without line breaks") {
    std::string text = R"({"global_step": 100, "log_history": [)";
    for (int i = 1; i <= 10; ++i)
        text += fmt::format(R"({{"epoch": 0.{}, "loss": {}, "step": {}}}, )", i, 4 - 0.1 * i, 10 * i);
    text +=
        R"({"step": 100, "train_loss": 3.45, "train_runtime": 150.0, "train_steps_per_second": 0.667}], "train_batch_size": 8})";
    CHECK(cells(runs_of(text + "\n", {.gpus = 8})) ==
          "gpus=8 dp=8 micro_batch=8 seconds=1.5 steps=100 dropped_steps=0");
    // Python writes numbers that JSON does not have.
    for (const char* loss : {"NaN", "-Infinity"}) {
        std::string diverged = text;
        diverged.replace(diverged.find("3.9"), 3, loss);
        diverged.insert(1, R"("note": "quoted \": NaN", "grads":[NaN,)" + std::string{loss} + "], ");
        CHECK(cells(runs_of(diverged + "\n", {.gpus = 8})) ==
              "gpus=8 dp=8 micro_batch=8 seconds=1.5 steps=100 dropped_steps=0");
    }
    CHECK(strict_json(R"({"a":NaN, "b": "\": NaN"})") == R"({"a":null, "b": "\": NaN"})");
}

TEST_CASE("torchtune's rate counts only tokens of the loss, so its bar is used if there is one") {
    const std::string lines = lines_of(40, [](int i) {
        return fmt::format(
            "Step {} | loss:1.2 lr:2e-05 tokens_per_second_per_gpu:2048 peak_memory_active:20 "
            "peak_memory_alloc:20 peak_memory_reserved:22.5 ",
            i);
    });
    const RunsTable runs = runs_of(lines, {.gpus = 8, .batch = 16, .sequence_length = 4096});
    CHECK(cells(runs).find("seconds=4 rate=4 memory=24159191040 ") != std::string::npos);
    CHECK(runs.of_trained_tokens == std::vector<std::string>{"log"});
    const std::string bar = lines_of(
        40, [](int i) { return fmt::format("1|{}|Loss: 1.2:  {}%|#   | {}/100 [00:10<00:50,  3.50s/it]", i, i, i); });
    CHECK(cells(runs_of(lines + bar)).find("seconds=3.5") != std::string::npos);
}
