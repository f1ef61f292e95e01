// SPDX-License-Identifier: Apache-2.0
#include "lib/core/error.hpp"
#include "tests/unit/formats/files/profile/log_rows.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

using namespace tpx;
using namespace tpx::formats;

TEST_CASE("BigScience's Megatron-DeepSpeed reports seconds") {
    std::string text =
        "383: using world size: 384, data-parallel-size: 8, tensor-model-parallel size: 4, pipeline-model-parallel "
        "size: 12 \n383:   checkpoint_activations .......................... True\n"
        "383:   data_parallel_size .............................. 8\n";
    for (int i = 1; i <= 4; ++i)
        text += fmt::format(
            "383:  iteration {:8}/  114203 | consumed samples: {:12} | consumed tokens:    4341104640 | elapsed time "
            "per "
            "iteration (s): 105.22 | learning rate: 6.000E-05 | global batch size:  2048 | lm loss: 2.1E+00 |\n",
            i, 2048 * i);
    CHECK(cells(runs_of(text)) ==
          "gpus=384 dp=8 tp=4 pp=12 recompute=full batch=2048 seconds=105.22 rate=19.464 steps=2 dropped_steps=2");
}

TEST_CASE("Megatron-LM 2.5 and 2.6 have a method of recomputation without a granularity") {
    std::string steps;
    for (int i = 1; i <= 4; ++i)
        steps += fmt::format(" iteration {}/ 9 | elapsed time per iteration (ms): 500.0 |\n", i);
    const std::string method = "  activations_checkpoint_method ................... uniform\n";
    CHECK(cells(runs_of(method + steps)) == "recompute=full seconds=0.5 steps=2 dropped_steps=2");
    CHECK(cells(runs_of("  activations_checkpoint_method ................... None\n" + steps)) ==
          "seconds=0.5 steps=2 dropped_steps=2");
    // NeMo has both; without a granularity, its method has no effect.
    const std::string none = "    activations_checkpoint_granularity: null\n",
                      nemo = "    activations_checkpoint_method: block\n";
    CHECK(cells(runs_of(none + nemo + steps)) == "seconds=0.5 steps=2 dropped_steps=2");
    CHECK(cells(runs_of("    activations_checkpoint_granularity: selective\n" + nemo + steps)) ==
          "recompute=selective seconds=0.5 steps=2 dropped_steps=2");
}

TEST_CASE("the sizes that Megatron-core 0.9 to 0.11 prints without a blank are read") {
    const auto text = [](int stages) {
        std::string lines = fmt::format(
            "using world size: 32, data-parallel size: 4, context-parallel size: 1, hierarchical context-parallel "
            "sizes: "
            "Nonetensor-model-parallel size: 4, encoder-tensor-model-parallel size: 0, pipeline-model-parallel size: "
            "{}, "
            "encoder-pipeline-model-parallel size: 0\n",
            stages);
        for (int i = 1; i <= 4; ++i)
            lines += fmt::format(" iteration {}/ 9 | elapsed time per iteration (ms): 500.0 |\n", i);
        return lines;
    };
    CHECK(cells(runs_of(text(2))) == "gpus=32 dp=4 tp=4 pp=2 seconds=0.5 steps=2 dropped_steps=2");
    CHECK_THROWS_WITH_AS(
        runs_of(text(1)),
        "log: the log has 32 GPUs, but its degrees dp=4,tp=4 need 16 GPUs; pass the whole plan by --with", Error);
}

TEST_CASE("parameters of one shard are not those of the model") {
    std::string text = " > number of parameters on (tensor, pipeline) model parallel rank (0, 0): 850000000\n";
    for (int i = 1; i <= 4; ++i)
        text += fmt::format(" iteration {}/ 9 | elapsed time per iteration (ms): 500.0 |\n", i);
    CHECK(cells(runs_of(text)) == "seconds=0.5 steps=2 dropped_steps=2");
    const std::string sizes =
        "  pipeline_model_parallel_size ......... 1\n  tensor_model_parallel_size ........... 1\n";
    CHECK(cells(runs_of(sizes + text)) == "parameters=850000000 seconds=0.5 steps=2 dropped_steps=2");
}

TEST_CASE("old versions of DeepSpeed have other names for the parts of a step") {
    std::string text;
    for (int i = 1; i <= 4; ++i)
        text +=
            "[2021-03-01 10:00:02,000] [INFO] [logging.py:60:log_dist] [Rank 0] rank=0 time (ms) | forward_microstep: "
            "50.00 | backward_microstep: 100.00 | backward_inner_microstep: 90.00 | backward_allreduce_microstep: "
            "10.00 | "
            "step_microstep: 50.00\n"
            "[2021-03-01 10:00:02,000] [INFO] [logging.py:60:log_dist] [Rank 0] rank=0 time (ms) | forward: 400.00 | "
            "backward: 800.00 | backward_inner: 720.00 | backward_allreduce: 80.00 | step: 50.00\n";
    CHECK(cells(runs_of(text)) == "seconds=1.25 steps=2 dropped_steps=2");
}

TEST_CASE("versions of DeepSpeed before 2022 report the mean rate of all steps") {
    // After slow steps up to 10, a step of 100 samples lasts 2 s.
    std::string text = "[2021-03-01 10:00:02,000] [INFO] [timer.py:154:stop] 0/1, SamplesPerSec=-inf\n";
    for (int i = 10; i <= 60; i += 10)
        text += fmt::format(
            "[2021-03-01 10:00:02,000] [INFO] [timer.py:154:stop] 0/{}, SamplesPerSec={}, "
            "MemAllocated=3.35GB, MaxMemAllocated=15.67GB\n",
            i, (i - 2) * 100 / (2.0 * (i - 10) + 80));
    CHECK(cells(runs_of(text)) == "rate=50 memory=16825534382 steps=6 dropped_steps=0");
}

TEST_CASE("runs that offload to NVMe drives are skipped") {
    const auto text = [](std::string_view device) {
        std::string lines = "    \"zero_optimization\": {\n        \"stage\": 3, \n        \"offload_optimizer\": {\n";
        lines +=
            fmt::format("            \"device\": \"{}\", \n            \"pin_memory\": true\n        }}, \n", device);
        lines += "        \"offload_param\": {\n            \"device\": \"none\"\n        }\n    }, \n";
        for (int i = 1; i <= 4; ++i) lines += "CurrSamplesPerSec=40.0, MemAllocated=0.1GB\n";
        return lines;
    };
    CHECK(cells(runs_of(text("cpu"))) == "zero=3 offload=1 rate=40 steps=2 dropped_steps=2");
    CHECK_THROWS_WITH_AS(runs_of(text("nvme")),
                         "log: offloads to NVMe drives, which the throughput model does not cover", Error);
    const std::string both = text("cpu") + "DeepSpeedEngine configuration:\n" + text("nvme");
    const RunsTable runs = runs_of(both);
    CHECK(runs.table.rows.size() == 1);
    CHECK(runs.on_nvme == std::vector<std::string>{"log, run 2"});
    // The same setting in the list of arguments.
    CHECK_THROWS_AS(runs_of("[2024-03-01 10:00:01,000] [INFO] [config.py:1000:print]   zero_config .................. "
                            "stage=3 offload_optimizer=DeepSpeedZeroOffloadOptimizerConfig(device="
                            "<OffloadDeviceEnum.nvme: 'nvme'>, nvme_path=None)\n" +
                            text("none")),
                    Error);
}

TEST_CASE("a log without steps is skipped if another log has a row") {
    std::string text;
    for (int i = 1; i <= 4; ++i)
        text += fmt::format(" iteration {}/ 9 | elapsed time per iteration (ms): 500.0 |\n", i);
    const std::vector<TrainingLog> logs{parse_training_log("  world_size ..... 8\nTraceback\n", "a.log"),
                                        parse_training_log(text, "b.log"), parse_training_log("", "c.log")};
    const RunsTable runs = runs_table(logs, {});
    CHECK(runs.table.rows.size() == 1);
    CHECK(runs.without_steps == std::vector<std::string>{"a.log", "c.log"});
    CHECK_THROWS_AS(runs_table(std::vector{parse_training_log("x\n", "d.log"), logs[1]}, {}), Error);
}

TEST_CASE("torchtitan of 2024 shards the data-parallel dimension of its mesh with FSDP") {
    const auto text = [](std::string_view technique, int replicas) {
        std::string lines = fmt::format("Building 1-D device mesh with ['dp'], [{}]\n", replicas);
        lines += fmt::format("[rank0]:2024-10-07 12:00:00,123 - root - INFO - Applied {} to the model\n", technique);
        for (int i = 1; i <= 4; ++i) lines += fmt::format("step: {:2}  loss:  8.0  wps: 500  mfu: 19.71%\n", i);
        return cells(runs_of(lines));
    };
    CHECK(text("FSDP", 8).starts_with("gpus=8 dp=8 zero=3 "));
    CHECK(text("HSDP", 8).starts_with("gpus=8 dp=8 zero=3 "));
    CHECK(text("DDP", 8).starts_with("gpus=8 dp=8 tokens_per_second"));
    CHECK(text("FSDP", 1).starts_with("gpus=1 dp=1 tokens_per_second"));
}

TEST_CASE("GPT-NeoX lists arguments with remarks, and has other names for the degrees of parallelism") {
    std::string steps;
    for (int i = 10; i <= 60; i += 10)
        steps += fmt::format(
            " samples/sec: 30.769 | iteration {:8}/  320000 | elapsed time per iteration (ms): 520.0 | learning rate: "
            "6.0E-04 | approx flops per GPU: 24.5TFLOPS | lm_loss: 7.1E+00 |\n",
            i);
    const std::string arguments =
        "NeoXArgs.configure_distributed_args() using world size: 8 and model-parallel size: 2 \n"
        "-------------------- arguments --------------------\n"
        "  checkpoint_activations .......... True........................updated\n"
        "  global_num_gpus ................. 8...........................updated\n"
        "  gradient_accumulation_steps ..... 2...........................updated\n"
        "  model_parallel_size ............. 2...........................updated\n"
        "  pipe_parallel_size .............. 2...........................updated\n"
        "  seq_length ...................... 2048........................updated\n"
        "  train_batch_size ................ 16..........................updated\n"
        "  train_micro_batch_size_per_gpu .. 4...........................updated\n"
        "  zero_optimization ............... {'stage': 1, 'allgather_partitions': True}updated\n"
        "  weight_decay .................... 0.1.........................default\n";
    CHECK(cells(runs_of(arguments + steps)) ==
          "gpus=8 dp=2 tp=2 pp=2 micro_batch=4 recompute=full zero=1 batch=16 sequence_length=2048 seconds=0.52 "
          "rate=30.7692 steps=50 dropped_steps=10");
    std::string no_pipeline = arguments;
    const std::string degree = "pipe_parallel_size .............. ";
    no_pipeline[no_pipeline.find(degree) + degree.size()] = '0';
    CHECK(cells(runs_of(no_pipeline + steps)).starts_with("gpus=8 dp=4 tp=2 micro_batch=4 "));
}

TEST_CASE("scripts of diffusers draw bars of steps") {
    std::string text;
    for (int i = 1; i <= 40; ++i)
        text += fmt::format("\rSteps:  {}%|#   | {}/100 [00:10<00:20,  2.00it/s, lr=1e-5, step_loss=0.1]", i, i);
    CHECK(cells(runs_of(text)).starts_with("seconds=0.5 "));
}
