// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/runs_file.hpp"

#include "formats/files/profile/throughput_file.hpp"

#include <doctest/doctest.h>

using namespace tpx;
using namespace tpx::formats;

namespace {

std::vector<Run> runs_of(const char* text, std::optional<double> batch = 32) {
    const Table table = parse_table(text, "runs.csv");
    return read_runs(table, default_columns(table), {batch, 2, 4});
}

std::vector<Run> mapped(const char* text, const char* columns, std::optional<double> batch = 32) {
    return read_runs(parse_table(text, "runs.csv"), parse_columns(columns, "columns.toml"), {batch, 2, 4});
}

std::string refusal(const char* text, const char* columns = nullptr) {
    try {
        columns ? mapped(text, columns) : runs_of(text);
    } catch (const Error& error) {
        return error.what();
    }
    return "accepted";
}

}  // namespace

TEST_CASE("runs are read from CSV") {
    const std::vector<Run> runs = runs_of(
        "plan,placement,seconds,batch,cpus,memory\n"
        "\"dp=4,tp=2\",8,1.5,,,\n"
        "# a comment\n"
        "\n"
        "\"dp=*,zero=2,offload\",4x2,2.25,64,8,40GB\r\n"
        "tp=8,3+5,0.5,16,,\n");
    REQUIRE(runs.size() == 3);
    CHECK(to_string(runs[0].plan) == "dp=4,tp=2");
    CHECK(runs[0].allocation.gpus == std::vector<int>{8});
    CHECK(runs[0].batch == 32);
    CHECK(runs[0].seconds == 1.5);
    CHECK(runs[0].allocation.cpus == 4);
    CHECK_FALSE(runs[0].memory);
    CHECK(runs[1].plan.dp == 8);
    CHECK(runs[1].allocation.gpus == std::vector<int>{2, 2, 2, 2});
    CHECK(runs[1].allocation.cpus == 8);
    CHECK(runs[1].memory == 40e9);
    CHECK(runs[1].label == "runs.csv:5");
    CHECK(runs[2].allocation.gpus == std::vector<int>{3, 5});
}

TEST_CASE("runs are read from tables with tabs and semicolons") {
    for (const char* text :
         {"plan\tgpus\tseconds\n\"dp=4,tp=2\"\t8\t1.5\n", "# of a spreadsheet\nplan;gpus;seconds\ndp=4,tp=2;8;1.5\n"}) {
        const std::vector<Run> runs = runs_of(text);
        REQUIRE(runs.size() == 1);
        CHECK(to_string(runs[0].plan) == "dp=4,tp=2");
        CHECK(runs[0].seconds == 1.5);
    }
}

TEST_CASE("rows without a time did not run, and are told apart") {
    const Table table = parse_table(
        "plan,seconds,memory\ndp=8,1.5,\ndp=4,OOM,\ndp=2,0,80GB\ntp=2,,\ndp=1,0.0,\npp=2,out of memory,\ntp=4,NaN,\n"
        "tp=8,CUDA OOM,\npp=4,OOM (80GB),\npp=8,/,\nfsdp=8,inf,\n",
        "runs.csv");
    const RunRows rows = read_run_rows(table, default_columns(table), {8, 2, 4});
    CHECK(rows.runs.size() == 1);
    REQUIRE(rows.failed.size() == 10);
    CHECK(rows.failed.front() == "runs.csv:3");
    CHECK(rows.failed.back() == "runs.csv:12");
    CHECK(refusal("plan,seconds\ndp=8,soon\n") == "runs.csv:2: column 'seconds': 'soon' is not a number");
}

TEST_CASE("micro-batches by their samples, shards of FSDP, tokens per second and MiB are understood") {
    const std::vector<Run> runs = runs_of("dp,pp,micro_batch,seconds\n4,1,2,1\n2,4,1,1\n");
    CHECK(to_string(runs[0].plan) == "dp=4,ga=4");
    CHECK(to_string(runs[1].plan) == "dp=2,pp=4,mb=16");
    CHECK(refusal("dp,micro_batch,seconds\n4,3,1\n") ==
          "runs.csv:2: column 'plan': 32 samples over 4 replicas are no whole number of micro-batches of 3");
    CHECK(refusal("dp,micro_batch,seconds\n4,1e-300,1\n").find("no whole number of micro-batches") !=
          std::string::npos);
    CHECK(refusal("dp,seconds,m\n8,1,x\n", "memory = {column = \"m\", values = {x = \"\"}}") != "accepted");
    CHECK(to_string(runs_of("fsdp,seconds\n8,1\n")[0].plan) == "dp=8,zero=3");
    CHECK(to_string(runs_of("dp,fsdp,tp,seconds\n8,4,2,1\n")[0].plan) == "dp=8,tp=2,zero=3");
    const Table table = parse_table("dp,tokens_per_second\n8,65536\n", "runs.csv");
    CHECK(read_runs(table, default_columns(table), {32, 2, 4, 2048})[0].seconds == 1);
    CHECK(refusal("dp,tokens_per_second\n8,65536\n") ==
          "runs.csv:2: column 'tokens_per_second': tokens per second need the model's sequence length (sequence)");
    const auto memory = mapped("dp,seconds,used\n8,1,2048\n", "memory = {column = \"used\", unit = \"MiB\"}");
    CHECK(memory[0].memory == 2048.0 * 1048576);
}

TEST_CASE("runs are read from JSON, as an array and as lines") {
    const std::vector<Run> array =
        runs_of(R"([{"dp": 2, "tp": 4, "seconds": 1.5}, {"dp": 8, "offload": true, "seconds": 3}])");
    REQUIRE(array.size() == 2);
    CHECK(to_string(array[0].plan) == "dp=2,tp=4");
    CHECK(to_string(array[1].plan) == "dp=8,offload");
    CHECK(runs_of("{\"dp\": 2, \"seconds\": 1.5}\n{\"dp\": 4, \"seconds\": 1}\n").size() == 2);
    CHECK(refusal("[{\"dp\": [2], \"seconds\": 1}]") ==
          "runs.csv:1: column 'dp': a number, text or truth value was expected");
    CHECK(refusal("[1]") == "runs.csv:1: an object was expected");
    CHECK(refusal("{\"dp\": ").starts_with("runs.csv:1: not JSON"));
}

TEST_CASE("other people's columns are mapped") {
    const std::vector<Run> runs =
        mapped("exec,nodes,time_ms,kind\nzero,35,500,a\n248,88888888,250,a\nzero,1,1,b\n",
               "seconds = {column = \"time_ms\", unit = \"ms\"}\n"
               "placement = {column = \"nodes\", digits = \"gpus\"}\n"
               "plan = {column = \"exec\", digits = \"pp tp dp\", values = {zero = \"dp=*,zero=1\"}}\n"
               "batch = {value = 64}\n[where]\nkind = \"a\"\n");
    REQUIRE(runs.size() == 2);
    CHECK(to_string(runs[0].plan) == "dp=8,zero=1");
    CHECK(runs[0].allocation.gpus == std::vector<int>{3, 5});
    CHECK(runs[0].seconds == 0.5);
    CHECK(runs[0].batch == 64);
    CHECK(to_string(runs[1].plan) == "dp=8,tp=4,pp=2");
}

TEST_CASE("rates become seconds, GPUs fill hosts") {
    const char* columns =
        "rate = {column = \"tput\", unit = \"samples/s\"}\ndp = \"n\"\ngpus = \"n\"\nper_host = {value = 8}\n"
        "recompute = {column = \"ac\", values = {True = \"full\", False = \"none\"}}\n";
    const std::vector<Run> runs = mapped("n,tput,ac\n20,64,True\n4,16,False\n", columns);
    CHECK(runs[0].seconds == 0.5);
    CHECK(runs[0].allocation.gpus == std::vector<int>{8, 8, 4});
    CHECK(runs[0].plan.recompute == Recompute::full);
    CHECK(runs[1].plan.recompute == Recompute::none);
}

TEST_CASE("what cannot be a run is refused with its row and column") {
    CHECK(refusal("plan,seconds\ndp=8,-1\n") == "runs.csv:2: column 'seconds': -1 is not positive");
    CHECK(refusal("plan,seconds\ndp=8,1\ndp=8,1x\n") == "runs.csv:3: column 'seconds': '1x' is not a number");
    CHECK(refusal("plan,seconds\ndp=8,1e6\n") ==
          "runs.csv:2: column 'seconds': a step of 1e+06 s cannot be right: is it in another unit?");
    CHECK(refusal("plan,placement,seconds\ndp=8,6,1\n") ==
          "runs.csv:2: column 'plan': the plan dp=8 uses 8 GPUs, but 6 are allocated");
    CHECK(refusal("plan,placement,seconds\n\"dp=*,tp=4\",6,1\n") ==
          "runs.csv:2: column 'plan': 6 GPUs are not divisible by 4");
    CHECK(refusal("plan,placement,seconds\ndp=8,8-8,1\n") ==
          "runs.csv:2: column 'placement': invalid placement '8-8'; use GPUs per host such as 8, 8+8+4 or 4x8");
    CHECK(refusal("plan,seconds\ndp=64,1\n") == "runs.csv:2: column 'plan': 64 replicas cannot share 32 samples");
    CHECK(refusal("plan,seconds,colour\ndp=8,1,red\n").starts_with("runs.csv:1: unknown column 'colour'; plan, dp"));
    CHECK(refusal("plan\ndp=8\n") == "runs.csv:1: there is no column 'seconds'; it has plan");
    CHECK(refusal("plan,seconds\ndp=8\n") == "runs.csv:2: 1 cells, but the header has 2 columns");
    CHECK(refusal("plan,plan\n") == "runs.csv:1: column 'plan' is there twice");
    CHECK(refusal("plan,seconds\n\"dp=8,1\n") == "runs.csv:2: a quote is not closed");
    CHECK(refusal("plan,seconds\n\"dp=8\"x,1\n") == "runs.csv:2: text after a closing quote");
    CHECK(refusal("") == "runs.csv: it is empty");
    CHECK(refusal("a\n1\n", "seconds = \"b\"\n") == "runs.csv:1: there is no column 'b'; it has a");
    CHECK(refusal("a\n1\n", "speed = \"a\"\n").starts_with("columns.toml:1: unknown quantity 'speed'"));
    CHECK(refusal("a\n1\n", "seconds = {col = \"a\"}\n").starts_with("columns.toml:1: unknown key 'col'"));
    CHECK(refusal("a\n1\n", "seconds = {unit = \"s\"}\n") == "columns.toml:1: either column or value is needed");
    CHECK(refusal("a,p\n1,23\n", "seconds = \"a\"\nplan = {column = \"p\", digits = \"pp tp dp\"}\n") ==
          "runs.csv:2: column 'p': '23' is no 3 digits");
    CHECK_THROWS_WITH_AS(runs_of("plan,seconds\ndp=8,1\n", std::nullopt),
                         "runs.csv:2: column 'batch': neither the row nor the model has one", Error);
}

TEST_CASE("placements read back as written") {
    for (const char* text : {"8", "8+8+4", "4x8", "2x1"}) CHECK(placement_text(parse_placement(text)) == text);
    for (const char* text : {"", "0", "8+", "+8", "x8", "4x", "8 8", "99999999999", "1x2x3"})
        CHECK_THROWS_AS(parse_placement(text), Error);
}

TEST_CASE("a model's file reads back as written") {
    ThroughputModel model;
    model.size = {"gpt \"2\"\n", 1.5e9, 1e9, 48, 1600, 25, 1024, 50257, true, 2, 4};
    model.batch = 16;
    model.gpus_per_nic = 2;
    model.gpu_memory = 80e9;
    model.nic = 12.5e9;
    model.parameters = prior_parameters(model.size);
    model.parameters->k_sync = 1.2345678901234567;
    model.covariance = Matrix{};
    (*model.covariance)[0][0] = 0.25;
    (*model.covariance)[2][1] = (*model.covariance)[1][2] = -0.125;
    model.interval_scale = 1.5;
    model.runs = 9;
    model.error = 0.01;
    model.memory = {1.25, 3e9};
    const ThroughputModel again = parse_throughput_model(throughput_model_text(model), "m.toml");
    CHECK(throughput_model_text(again) == throughput_model_text(model));
    CHECK(again.size.name == "gpt \"2\"\n");
    CHECK(again.parameters->k_sync == model.parameters->k_sync);
    CHECK(*again.covariance == *model.covariance);
    CHECK(again.interval_scale == 1.5);
}

TEST_CASE("a fitted model's file makes predictions as sure as the fit, an unfitted one's as sure as the prior") {
    const char* const file = "[model]\nparameters = 1e9\n";
    const ThroughputModel unfitted = parse_throughput_model(file, "m.toml");
    CHECK(uncertainty_of(unfitted).belief.covariance == belief_before(unfitted).covariance);
    const ThroughputModel earlier =
        parse_throughput_model(fmt::format("{}[deviations]\nmodel_parallel = 0.5\n", file), "m.toml");
    CHECK(uncertainty_of(earlier).belief.covariance[1][1] == 0.25);
}

TEST_CASE("what is no model file is refused with its line") {
    const auto refused = [](const char* text) {
        try {
            parse_throughput_model(text, "m.toml");
        } catch (const Error& error) {
            CHECK(error.exit() == Exit::usage);
            return std::string{error.what()};
        }
        return std::string{"accepted"};
    };
    CHECK(refused("") == "m.toml: [model] has no parameters = N");
    CHECK(refused("[model]\nparameters = -1\n") == "m.toml:2: a number of at least 1 was expected");
    CHECK(refused("[model]\nparameters = 1e9\nsize = 3\n") == "m.toml:3: unknown key 'size' in [model]");
    CHECK(refused("[model]\nparameters = 1e9\n[parameters]\nk_sync = 1\n") == "m.toml:3: k_sync must be above 1");
    CHECK(refused("[model]\nparameters = 1e9\n[job]\nnic = \"fast\"\n").starts_with("m.toml:4: "));
    CHECK(refused("speed = 3\n") ==
          "m.toml:1: 'speed': [model], [job], [parameters], [covariance], [deviations], [fit] are known");
    CHECK(refused("[model]\nparameters = 1e9\n[covariance]\nmodel_parallel = [1]\n") ==
          "m.toml:4: 2 numbers were expected");
    CHECK(refused("[model\n").starts_with("m.toml:1: "));
}
