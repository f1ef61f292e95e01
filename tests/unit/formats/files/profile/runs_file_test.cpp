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

TEST_CASE("rows without a time are runs that failed, and are separated") {
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
          "runs.csv:2: column 'micro_batch': 32 samples over 4 replicas cannot be split into whole micro-batches of 3");
    CHECK(refusal("dp,micro_batch,seconds\n4,1e-300,1\n").find("whole micro-batches") != std::string::npos);
    CHECK_FALSE(mapped("dp,seconds,m\n8,1,x\n", "memory = {column = \"m\", values = {x = \"\"}}")[0].memory);
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

TEST_CASE("columns with other names are mapped") {
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

TEST_CASE("invalid runs are refused with row and column") {
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
    CHECK(refusal("seconds,color\n1,red\n")
              .starts_with("runs.csv:1: unknown column 'color', and no column with a plan; plan, dp"));
    CHECK(
        refusal("plan\ndp=8\n") ==
        "runs.csv:1: there is no column 'seconds', 'rate' or 'tokens_per_second'; it has plan; --columns can map one");
    CHECK(refusal("plan,seconds\ndp=8\n") == "runs.csv:2: 1 cell, but the header has 2 columns");
    CHECK(refusal("plan,plan\n") == "runs.csv:1: column 'plan' is there twice");
    CHECK(refusal("plan,seconds\n\"dp=8,1\n") == "runs.csv:2: a quote is not closed");
    CHECK(refusal("plan,seconds\n\"dp=8\"x,1\n") == "runs.csv:2: text after a closing quote");
    CHECK(refusal("") == "runs.csv: it is empty");
    CHECK(refusal("a\n1\n", "seconds = \"b\"\n") == "runs.csv:1: there is no column 'b'; it has a");
    CHECK(refusal("a\n1\n", "speed = \"a\"\n").starts_with("columns.toml:1: unknown quantity 'speed'"));
    CHECK(refusal("a\n1\n", "seconds = {col = \"a\"}\n").starts_with("columns.toml:1: unknown key 'col'"));
    CHECK(refusal("a\n1\n", "seconds = {unit = \"s\"}\n") == "columns.toml:1: either column or value is needed");
    CHECK(refusal("a,p\n1,23\n", "seconds = \"a\"\nplan = {column = \"p\", digits = \"pp tp dp\"}\n") ==
          "runs.csv:2: column 'p': '23' is not 3 digits");
    CHECK_THROWS_WITH_AS(runs_of("plan,seconds\ndp=8,1\n", std::nullopt),
                         "runs.csv:2: neither the row nor the model has a batch (samples per step)", Error);
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

TEST_CASE("predictions from a file of a fitted model are as certain as the fit, from an unfitted one as the prior") {
    const char* const file = "[model]\nparameters = 1e9\n";
    const ThroughputModel unfitted = parse_throughput_model(file, "m.toml");
    CHECK(uncertainty_of(unfitted).belief.covariance == belief_before(unfitted).covariance);
    const ThroughputModel earlier =
        parse_throughput_model(fmt::format("{}[deviations]\nmodel_parallel = 0.5\n", file), "m.toml");
    CHECK(uncertainty_of(earlier).belief.covariance[1][1] == 0.25);
}

TEST_CASE("invalid model files are refused with the line") {
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

TEST_CASE("rows with memory and no time are kept for the memory estimate") {
    const Table table = parse_table(
        "plan,seconds,memory\ndp=8,1.5,20GB\ndp=4,,40GB\ndp=2,n/a,60GB\ntp=8,OOM,80GB\ntp=4,,\n", "runs.csv");
    const RunRows rows = read_run_rows(table, default_columns(table), {8, 2, 4});
    CHECK(rows.runs.size() == 1);
    REQUIRE(rows.memory_runs.size() == 2);
    CHECK(rows.memory_runs[1].memory == 60e9);
    CHECK(rows.failed == std::vector<std::string>{"runs.csv:5", "runs.csv:6"});
}

TEST_CASE("tables of spreadsheets are read in whatever form they are saved") {
    const auto seconds = [](const std::string& text) {
        return read_runs(parse_table(text, "t"), default_columns(parse_table(text, "t")), {32, 2, 4})[0].seconds;
    };
    CHECK(seconds("plan;seconds\r\ndp=8;0,512\r\n") == 0.512);
    CHECK(seconds("plan;seconds\ndp=8;1.234,5\n") == 1234.5);
    CHECK(seconds("plan,seconds\ndp=8,\"1,234.5\"\n") == 1234.5);
    CHECK(seconds("plan,seconds\ndp=8,\"1,234\"\n") == 1234);
    CHECK(seconds("plan;seconds\ndp=8;1,234\n") == 1.234);  // with semicolons, a comma is the decimal sign
    CHECK(seconds("plan\tseconds\ndp=8\t1 234\n") == 1234);
    CHECK(seconds("plan\tseconds\ndp=8\t0,25\n") == 0.25);
    CHECK(seconds("plan;seconds\ndp=8;0.512\n") == 0.512);
    CHECK(seconds("\xEF\xBB\xBFplan,seconds\ndp=8,1.5\n") == 1.5);
    CHECK(seconds("sep=;\r\nplan;seconds\r\ndp=8;1,5\r\n") == 1.5);
    CHECK(seconds("plan,seconds\rdp=8,1.5\r") == 1.5);
    CHECK(seconds(",plan,seconds,\n0,dp=8,1.5,\n") == 1.5);
    for (const bool big : {false, true}) {
        std::string wide = big ? "\xFE\xFF" : "\xFF\xFE";
        for (const char c : std::string{"plan,seconds\ndp=8,1.5\n"})
            wide += big ? std::string{'\0', c} : std::string{c, '\0'};
        CHECK(seconds(wide) == 1.5);
    }
}

TEST_CASE("times and rates are read from columns with the names that logs and spreadsheets give them") {
    const auto seconds = [](const std::string& column, const std::string& value) {
        const Table table = parse_table("plan," + column + "\ndp=8," + value + "\n", "t");
        return read_runs(table, default_columns(table), {32, 2, 4})[0].seconds;
    };
    for (const std::string column :
         {"step_time", "iter_s", "iter_time_s", "s/it", "s/iter", "sec/step", "Step time (s)"})
        CHECK(seconds(column, "0.5") == 0.5);
    for (const std::string column :
         {"iter_time_ms", "iter_ms", "ms/it", "ms/step", "time/iter (ms)", "Step time in ms"})
        CHECK(seconds(column, "500") == 0.5);
    for (const std::string column :
         {"images_sec", "img_sec", "img/s", "imgs/s", "images/sec", "samples_sec", "Samples/s"})
        CHECK(seconds(column, "64") == 0.5);
    for (const std::string column : {"it/s", "iter/s", "iters/sec", "steps/s", "steps_sec", "Iterations / s"})
        CHECK(seconds(column, "2") == 0.5);
}

TEST_CASE("files that are not text are refused with their type") {
    using namespace std::string_literals;
    const auto refused = [](const std::string& bytes) {
        try {
            (void)parse_table(bytes, "t.csv");
        } catch (const Error& error) {
            return std::string{error.what()};
        }
        return "accepted"s;
    };
    CHECK(refused("PK\x03\x04xyz") ==
          "t.csv: not a table but a zip archive, such as an Excel (.xlsx) or OpenDocument (.ods) spreadsheet; save it "
          "as CSV");
    CHECK(refused("PAR1xyz") == "t.csv: not a table but a Parquet file; convert it to CSV");
    CHECK(refused("plan\0,seconds\n"s) == "t.csv: not text: it contains NUL bytes");
    CHECK(refused("\x1F\x8B\x08") == "t.csv: truncated gzip file");
    CHECK(refused("\xFF\xFEp") == "t.csv: truncated UTF-16 text");
}
