// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/runs_file.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace tpx;
using namespace tpx::formats;

namespace {

RunDefaults column_defaults() { return {.batch = 32, .gpus_per_nic = 2, .cpus = 4, .sequence = 2048}; }

std::vector<Run> column_runs(const std::string& text) {
    const Table table = parse_table(text, "runs.csv");
    return read_runs(table, default_columns(table), column_defaults());
}

std::string column_refusal(const std::string& text, const char* columns = nullptr) {
    try {
        const Table table = parse_table(text, "runs.csv");
        (void)read_runs(table, columns ? parse_columns(columns, "columns.toml") : default_columns(table),
                        column_defaults());
    } catch (const Error& error) {
        return error.what();
    }
    return "accepted";
}

}  // namespace

TEST_CASE("unknown columns are ignored with a note unless they may contain required values") {
    const Table table = parse_table("plan,seconds,color,seed\ndp=8,1,red,7\n", "runs.csv");
    const RunRows rows = read_run_rows(table, default_columns(table), {32, 2, 4});
    CHECK(rows.runs.size() == 1);
    CHECK(rows.unknown_columns == std::vector<std::string>{"color", "seed"});
    CHECK(column_refusal("plan,seconds,batch_size\ndp=8,1,4\n") ==
          "runs.csv:1: column 'batch_size' may hold batch or micro_batch; map it in a --columns file, or list it there "
          "under ignore");
}

TEST_CASE("columns are recognized by the names that frameworks give them") {
    const Table table = parse_table(
        "Num GPUs,GPUs per node,tensor_parallel_size,data_parallel_size,global_batch_size,Step time (ms),"
        "gradient_checkpointing,peak_memory_gib\n16,8,4,4,64,250,True,20\n",
        "runs.csv");
    const RunRows rows = read_run_rows(table, default_columns(table), {32, 2, 4});
    REQUIRE(rows.runs.size() == 1);
    const Run& run = rows.runs[0];
    CHECK(to_string(run.plan) == "dp=4,tp=4,recompute=full");
    CHECK(run.allocation.gpus == std::vector<int>{8, 8});
    CHECK(run.batch == 64);
    CHECK(run.seconds == 0.25);
    CHECK(run.memory == 20.0 * 1073741824);
    CHECK(rows.aliases.size() == 8);
    CHECK(rows.unknown_columns.empty());
    CHECK(column_runs("dp,seconds,step_time\n8,1,2\n")[0].seconds == 1);
    CHECK(column_runs("dp,time_per_iter\n8,2\n")[0].seconds == 2);
    CHECK(column_runs("dp,elapsed time per iteration (ms)\n8,500\n")[0].seconds == 0.5);
    CHECK(column_runs("dp,s/it\n8,2\n")[0].seconds == 2);
    CHECK(column_runs("dp,batch,sequences/s\n8,64,16\n")[0].seconds == 4);
    CHECK(column_runs("dp,batch,img/sec\n8,64,16\n")[0].seconds == 4);
    CHECK(column_runs("pp,virtual_pipeline_model_parallel_size,seconds\n4,2,1\n")[0].plan.vpp == 2);
    CHECK(column_runs("dp,iter/s\n8,2\n")[0].seconds == 0.5);
}

TEST_CASE("words for flags, ZeRO stages and recomputation are read in any case, and others are refused") {
    const auto plan = [](const std::string& text) { return to_string(column_runs(text)[0].plan); };
    for (const char* yes : {"1", "true", "True", "YES", "On", "cpu", "CPU", "1.0"})
        CHECK(plan(fmt::format("dp,offload,seconds\n8,{},1\n", yes)) == "dp=8,offload");
    for (const char* no : {"0", "False", "NO", "none", "None", "nan", ""})
        CHECK(plan(fmt::format("dp,offload,seconds\n8,{},1\n", no)) == "dp=8");
    CHECK(column_refusal("dp,offload,seconds\n8,sometimes,1\n") ==
          "runs.csv:2: column 'offload': 'sometimes' is not true, false or cpu");
    CHECK(column_refusal("tp,sequence,seconds\n8,maybe,1\n") ==
          "runs.csv:2: column 'sequence': 'maybe' is neither true nor false");
    CHECK(plan("dp,recompute,seconds\n8,Full,1\n") == "dp=8,recompute=full");
    CHECK(plan("dp,recompute,seconds\n8,None,1\n") == "dp=8");
    CHECK(column_refusal("dp,recompute,seconds\n8,some,1\n") ==
          "runs.csv:2: column 'recompute': unknown recomputation 'some'; use none, selective or full");
    for (const char* stage : {"2", "2.0", "ZeRO-2", "stage 2", "zero2"})
        CHECK(plan(fmt::format("dp,zero,seconds\n8,{},1\n", stage)) == "dp=8,zero=2");
    CHECK(column_refusal("dp,zero,seconds\n8,x2,1\n") ==
          "runs.csv:2: column 'zero': unknown ZeRO stage 'x2'; use 0 to 3");
}

TEST_CASE("degrees can be written as decimal numbers, and errors name their columns") {
    CHECK(to_string(column_runs("dp,tp,pp,seconds\n2.0,4.0,NaN,1\n")[0].plan) == "dp=2,tp=4");
    CHECK(column_refusal("dp,tp,seconds\n2,two,1\n") == "runs.csv:2: column 'tp': 'two' is not a number");
    CHECK(column_refusal("dp,tp,seconds\n2,1.5,1\n") == "runs.csv:2: column 'tp': '1.5' is not a whole number");
    CHECK(column_refusal("dp,tp,seconds\n2,0,1\n") ==
          "runs.csv:2: column 'tp': plan: tp=0: a whole number from 1 to 1048576 was expected");
    CHECK(column_refusal("dp,gpus,seconds\n8,6,1\n") == "runs.csv:2: the plan dp=8 uses 8 GPUs, but 6 are allocated");
}

TEST_CASE("the GPUs of a plan fill hosts of the size that the row records") {
    const std::vector<Run> runs = column_runs("dp,tp,per_host,seconds\n4,4,8,1\n5,2,8,1\n1,2,8,1\n");
    CHECK(runs[0].allocation.gpus == std::vector<int>{8, 8});
    CHECK(runs[1].allocation.gpus == std::vector<int>{8, 2});
    CHECK(runs[2].allocation.gpus == std::vector<int>{2});
}

TEST_CASE("a row with a time and a word for its memory has no memory") {
    for (const char* word : {"N/A", "NaN", "-", "OOM", ""})
        CHECK_FALSE(column_runs(fmt::format("dp,seconds,memory\n8,1,{}\n", word))[0].memory);
}

TEST_CASE("rates per GPU are multiplied by the number of GPUs") {
    CHECK(column_runs("dp,tp,tokens/s/GPU\n4,2,8192\n")[0].seconds == 1);
    CHECK(column_runs("dp,tp,samples_per_second_per_gpu\n4,2,2\n")[0].seconds == 2);
    const char* const mapped = "tokens_per_second = {column = \"t\", unit = \"tokens/s/GPU\"}";
    const Table table = parse_table("dp,t\n8,8192\n", "runs.csv");
    CHECK(read_runs(table, parse_columns(mapped, "columns.toml"), column_defaults())[0].seconds == 1);
    CHECK(column_refusal("dp,t\n8,1\n", "tokens_per_second = {column = \"t\", unit = \"samples/s\"}") ==
          "columns.toml:1: unknown unit 'samples/s' of tokens_per_second; use tokens/s, ktokens/s, tokens/s/GPU, "
          "ktokens/s/GPU");
    CHECK(column_refusal("dp,s\n8,1\n", "seconds = \"s\"\ndp = {column = \"dp\", unit = \"ms\"}") ==
          "columns.toml:2: dp has no unit; only seconds, rate, tokens_per_second and memory have one");
}

TEST_CASE("TFLOP/s are rates of the model's FLOPs, unless another column has the time") {
    RunDefaults defaults = column_defaults();
    defaults.flops = 4e12;
    const auto rows_of = [&](const std::string& text, const char* columns = nullptr) {
        const Table table = parse_table(text, "runs.csv");
        return read_run_rows(table, columns ? parse_columns(columns, "columns.toml") : default_columns(table),
                             defaults);
    };
    for (const char* name : {"TFLOP/s/GPU", "tflops_per_gpu", "throughput per GPU (TFLOP/s/GPU)", "TFLOPs"}) {
        const RunRows rows = rows_of(fmt::format("dp,batch,{}\n8,32,16\n", name));
        REQUIRE(rows.runs.size() == 1);
        CHECK(rows.runs[0].seconds == 1);  // 32 * 4 TFLOP at 8 * 16 TFLOP/s
        CHECK(rows.from_flops == 1);
    }
    CHECK(rows_of("tflops,dp,batch,step_time\n16,8,32,3\n").runs[0].seconds == 3);
    const char* hardware = "rate = {column = \"x\", unit = \"hardware TFLOP/s/GPU\"}";
    CHECK(rows_of("dp,batch,recompute,x\n8,32,full,16\n", hardware).runs[0].seconds == doctest::Approx(4.0 / 3));
    CHECK(rows_of("dp,batch,recompute,x\n8,32,none,16\n", hardware).runs[0].seconds == 1);
    CHECK(rows_of("dp,batch,x\n8,32,128\n", "rate = {column = \"x\", unit = \"TFLOP/s\"}").runs[0].seconds == 1);
    CHECK(column_refusal("dp,tflops\n8,16\n") ==
          "runs.csv:2: column 'tflops': TFLOP/s need the model's sizes: parameters, layers, hidden and sequence "
          "(tokens per "
          "sample)");
}

TEST_CASE("the FLOPs of a sample are those that Megatron-LM counts for GPT-3 with tied embeddings") {
    ModelSize size;
    size.layers = 96, size.hidden = 12288, size.sequence = 2048;
    const double vocabulary = 51200, h = size.hidden, l = size.layers, s = size.sequence;
    size.parameters = 12 * l * h * h + vocabulary * h;
    const double megatron = 72 * s * l * h * h * (1 + s / (6 * h) + vocabulary / (12 * l * h));
    CHECK(size.sample_flops() == doctest::Approx(megatron).epsilon(1e-12));
    CHECK(ModelSize{}.sample_flops() == 0);
}

TEST_CASE("columns of MLflow, Weights & Biases and torchtitan are recognized with the prefixes of their groups") {
    const Run mlflow = column_runs("params.dp,params.tp,metrics.step_time\n4,2,0.5\n")[0];
    CHECK(to_string(mlflow.plan) == "dp=4,tp=2");
    CHECK(mlflow.seconds == 0.5);
    const Run titan = column_runs("dp,time_metrics/end_to_end(s),memory/max_reserved(GiB)\n8,2,10\n")[0];
    CHECK(titan.seconds == 2);
    CHECK(titan.memory == 10.0 * 1073741824);
    CHECK(column_runs("dp,batch,throughput(tps)\n8,32,8192\n")[0].seconds == 1);  // 32 * 2048 tokens on 8 GPUs
    CHECK(column_runs("dp,train/train_steps_per_second\n8,4\n")[0].seconds == 0.25);
    CHECK(column_runs("dp,iteration-time,mem-max-allocated-bytes\n8,1,23622320128\n")[0].memory == 23622320128.0);
}

TEST_CASE("rows of several GPU types are refused under every name of their column") {
    for (const char* name : {"gpu", "cluster", "hardware", "accelerator"}) {
        CHECK(column_refusal(fmt::format("plan,seconds,{}\ndp=2,1,a100\ndp=4,1,h100\n", name)) ==
              fmt::format("runs.csv:3: column '{}': rows mix 'a100' and 'h100'; select one with [where] in the "
                          "--columns file",
                          name));
        CHECK(column_runs(fmt::format("plan,seconds,{}\ndp=2,1,a100\ndp=4,1,a100\n", name)).size() == 2);
    }
}

TEST_CASE("GPUs may be given by hosts, and data parallelism by what other degrees leave") {
    const auto placed = [](const char* text) {
        const Run run = column_runs(text).at(0);
        return to_string(run.plan) + " on " + placement_text(run.allocation.gpus);
    };
    CHECK(placed("nodes,gpus_per_node,tp,seconds\n2,4,4,1\n") == "dp=2,tp=4 on 2x4");
    CHECK(placed("num_nodes,world_size,tp,seconds\n2,8,2,1\n") == "dp=4,tp=2 on 2x4");
    CHECK(placed("hosts,dp,seconds\n4,8,1\n") == "dp=8 on 4x2");
    CHECK(placed("gpus,GPUs/node,TP,PP,seconds\n16,8,2,4,1\n") == "dp=2,tp=2,pp=4 on 2x8");
    CHECK(placed("placement,tp,seconds\n4+2,1,1\n") == "dp=6 on 4+2");
    CHECK(column_refusal("nodes,gpus,tp,seconds\n3,8,2,1\n") ==
          "runs.csv:2: column 'nodes': 8 GPUs cannot be divided evenly among 3 hosts; use a column 'placement', as in "
          "8+8+4");
    CHECK(column_refusal("nodes,gpus_per_node,gpus,tp,seconds\n3,8,16,2,1\n") ==
          "runs.csv:2: column 'nodes': 16 GPUs at 8 per host need 2 hosts, but the row has 3");
    CHECK(column_refusal("gpus,tp,seconds\n6,4,1\n").find("6 GPUs are not divisible by 4") != std::string::npos);
}

TEST_CASE("columns of averages and other units are times") {
    CHECK(column_runs("dp,mean_step_time,std_step_time\n8,2,9\n")[0].seconds == 2);
    CHECK(column_runs("dp,step_time_avg_ms\n8,500\n")[0].seconds == 0.5);
    CHECK(column_runs("dp,Step Time (us)\n8,500000\n")[0].seconds == 0.5);
    CHECK(column_runs("dp,Steps/min\n8,30\n")[0].seconds == 2);
    CHECK(column_runs("dp,ktokens/s\n8,65.536\n")[0].seconds == doctest::Approx(1));
    CHECK(column_refusal("dp,step_time_std\n8,2\n").find("there is no column 'seconds'") != std::string::npos);
}

TEST_CASE("the cell of a time may have a unit and a spread") {
    CHECK(column_runs("dp,step_time\n8,0.5 s\n4,1000ms\n2,2.0 \xC2\xB1 0.1\n1,4 +/- 0.2 sec\n").at(3).seconds == 4);
    const auto runs = column_runs("dp,step_time_ms\n8,0.5 s\n4,1000\n2,1e3\n");
    CHECK(runs[0].seconds == 0.5);
    CHECK(runs[1].seconds == 1);
    CHECK(runs[2].seconds == 1);
    CHECK(column_refusal("dp,step_time\n8,5 h\n") == "runs.csv:2: column 'step_time': '5 h' is not a number");
}

TEST_CASE("runs whose status says that they failed did not run, whatever their time") {
    const Table table = parse_table("dp,seconds,State\n8,1,COMPLETED\n4,0.01,FAILED\n2,3,ok\n1,0.1,OOM\n", "runs.csv");
    const RunRows rows = read_run_rows(table, default_columns(table), column_defaults());
    CHECK(rows.runs.size() == 2);
    CHECK(rows.failed == std::vector<std::string>{"runs.csv:3", "runs.csv:5"});
}

TEST_CASE("plans have several forms, also in columns of other names") {
    const auto plan = [](const std::string& cell) {
        return to_string(column_runs("parallelism,gpus,seconds\n" + cell + ",16,1\n").at(0).plan);
    };
    CHECK(plan("TP4-PP2-DP2") == "dp=2,tp=4,pp=2");
    CHECK(plan("tp4pp2dp2") == "dp=2,tp=4,pp=2");
    CHECK(plan("tp=4 pp=2 dp=2 sp") == "dp=2,tp=4,pp=2,sp");
    CHECK(plan("\"TP: 4, DP: 4, ZeRO-1\"") == "dp=4,tp=4,zero=1");
    CHECK(plan("DDP") == "dp=16");
    CHECK(plan("FSDP") == "dp=16,zero=3");
    CHECK(plan("FSDP8-TP2") == "dp=8,tp=2,zero=3");
    for (const char* wrong : {"fast", "TP4-TP8", "tp4-xy2", "FSDP-ZeRO-2"})
        CHECK(column_refusal(fmt::format("parallelism,gpus,seconds\n{},16,1\n", wrong)) ==
              "runs.csv:1: column 'parallelism' may hold plan; map it in a --columns file, or list it there under "
              "ignore");
}

TEST_CASE("tables of blanks are refused with what to use") {
    CHECK(column_refusal("  dp   tp  step_time\n   8    1        1.5\n") ==
          "runs.csv: its columns are separated by blanks; use commas, semicolons, tabs or bars");
}

TEST_CASE("placements may be lists") {
    const auto gpus = [](const std::string& cell) {
        return column_runs("dp,placement,seconds\n16," + cell + ",1\n").at(0).allocation.gpus;
    };
    for (const char* text : {"8+8", "\"[8, 8]\"", "\"8,8\"", "8 + 8", "2 x 8"})
        CHECK(gpus(text) == std::vector<int>{8, 8});
}

TEST_CASE("JSON tables may be nested, by column or by row") {
    const auto total = [](const std::string& text) {
        double sum = 0;
        for (const Run& run : column_runs(text)) sum += run.plan.tp * 100 + run.plan.dp * 10 + run.seconds * run.batch;
        return sum;
    };
    const double expected = 400 + 20 + 64 + 100 + 80 + 128;
    CHECK(total(R"([{"tp":4,"dp":2,"step_time":2,"batch":32},{"dp":8,"tp":1,"step_time":4,"batch":32}])") == expected);
    CHECK(total(R"([{"plan":{"tp":4,"dp":2},"metrics":{"step_time":2},"placement":[8]},)"
                R"({"plan":{"tp":1,"dp":8},"metrics":{"step_time":4},"placement":[4,4]}])") == expected);
    CHECK(total(R"({"name":"x","batch":64,"results":[{"tp":4,"dp":2,"step_time":1},{"tp":1,"dp":8,"step_time":2}]})") ==
          expected);
    CHECK(total(R"({"tp":[4,1],"dp":[2,8],"step_time":[2,4]})") == expected);
    CHECK(total(R"({"tp":{"0":4,"1":1},"dp":{"0":2,"1":8},"step_time":{"0":2,"1":4}})") == expected);
    CHECK(total(R"({"0":{"tp":4,"dp":2,"step_time":2},"1":{"tp":1,"dp":8,"step_time":4}})") == expected);
    CHECK(total(R"({"columns":["tp","dp","step_time"],"index":[0,1],"data":[[4,2,2],[1,8,4]]})") == expected);
    CHECK(total("{\"tp\":4,\"dp\":2,\"step_time\":2}\n{\"tp\":1,\"dp\":8,\"step_time\":4}\n") == expected);
    for (const char* empty : {"[]", "{}", R"({"runs":[]})"})
        CHECK(column_refusal(empty) == "runs.csv: contains no runs");
    CHECK(column_refusal(R"({"columns":["dp"],"data":[5]})").starts_with("runs.csv:1: there is no column 'seconds'"));
    CHECK(column_refusal(R"([{"dp":8,"seconds":1,"hosts":["a","b"]}])") ==
          "runs.csv:1: column 'hosts': a number, text or truth value was expected");
}

TEST_CASE("tables of Markdown, UTF-16 without a mark, and words of other languages") {
    CHECK(column_runs("| dp | step_time |\n|---:|:--|\n| 8 | 2 |\n")[0].seconds == 2);
    std::string wide;
    for (const char c : std::string{"dp;seconds;offload\n8;0,5;WAHR\n4;1,5;nein\n"}) wide += {c, '\0'};
    const auto runs = column_runs(wide);
    REQUIRE(runs.size() == 2);
    CHECK(runs[0].seconds == 0.5);
    CHECK(runs[0].plan.offload);
    CHECK_FALSE(runs[1].plan.offload);
}

TEST_CASE("the batch follows from micro-batches and passes, which must agree with a given batch") {
    const auto run = [](const std::string& header, const std::string& row) {
        return column_runs(header + ",seconds\n" + row + ",1\n").at(0);
    };
    const Run implied = run("dp,per_device_train_batch_size,gradient_accumulation_steps", "2,4,3");
    CHECK(implied.batch == 24);  // not that of the model, 32
    CHECK(to_string(implied.plan) == "dp=2,ga=3");
    const Run pipeline = run("gpus,pp,micro_batch,accumulation", "8,2,1,8");
    CHECK(pipeline.batch == 32);
    CHECK(to_string(pipeline.plan) == "dp=4,pp=2,mb=8");
    CHECK(to_string(run("dp,pp,micro_batch,micro_batches,batch", "2,2,1,8,16").plan) == "dp=2,pp=2,mb=8");
    CHECK(run("dp,micro_batch", "2,4").batch == 32);
    CHECK(column_refusal("dp,micro_batch,accumulation,batch,seconds\n2,4,1,16,1\n") ==
          "runs.csv:2: column 'micro_batch': 2 replicas × 1 micro-batch × 4 samples each = 8 samples per step, "
          "but the batch is 16");
    CHECK(to_string(run("gpus,zero_stage", "8,1").plan) == "dp=8,zero=1");
}
