// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/column_aliases.hpp"
#include "formats/files/profile/runs_file.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace tpx;
using namespace tpx::formats;

namespace {

// The runs in a table of CSV, of a model with a batch of 32.
std::vector<Run> cell_runs(const std::string& csv) {
    const Table table = parse_table(csv, "runs.csv");
    return read_runs(table, default_columns(table), {32, 2, 4});
}

std::string cell_refusal(const std::string& csv) {
    try {
        (void)cell_runs(csv);
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

std::size_t failed_rows(const std::string& csv) {
    const Table table = parse_table(csv, "runs.csv");
    return read_run_rows(table, default_columns(table), {32, 2, 4}).failed.size();
}

}  // namespace

TEST_CASE("the passes of a plan count, however it is spelled") {
    for (const char* plan : {"TP1-DP2-GA4", "dp: 2 ga: 4", "DP=2 GA=4", "\"dp=2,ga=4\""}) {
        const Run run = cell_runs(fmt::format("plan,micro_batch,seconds\n{},2,1\n", plan)).at(0);
        CHECK(to_string(run.plan) == "dp=2,ga=4");
        CHECK(run.batch == 16);  // not that of the model
    }
    CHECK(cell_refusal("plan,micro_batch,batch,seconds\nTP1-DP2-GA4,2,32,1\n") ==
          "runs.csv:2: column 'micro_batch': 2 replicas × 4 micro-batches × 2 samples each = 16 samples per step, but "
          "the "
          "batch is 32");
}

TEST_CASE("a product of micro-batches may not exceed the largest batch") {
    const std::string header = "dp,micro_batch,accumulation,micro_batches,pp,seconds\n";
    CHECK(cell_runs(header + "1,4096,4096,1,1,1\n").at(0).batch == 1 << 24);
    CHECK(cell_refusal(header + "1,1,1048576,1048576,2,1\n") ==
          "runs.csv:2: column 'micro_batch': a step has 1 to 2^24 samples, not 1.09951e+12");
    CHECK(cell_refusal("dp,micro_batch,accumulation,micro_batches,pp,batch,seconds\n1,1,65536,65536,2,8,1\n") ==
          "runs.csv:2: column 'micro_batch': 1 replica × 4294967296 micro-batches × 1 samples each = 4.29497e+09 "
          "samples per step, but the batch is 8");
}

TEST_CASE("words for failures are the same in times and in the status of runs") {
    for (const char* word :
         {"OUT_OF_MEMORY", "OUT_OF_ME+", "NODE_FAIL", "CANCELLED by 1000", "CANCELLED+", "canceled", "PREEMPTED",
          "OutOfMemoryError", "OOMKilled", "OOM (80GB)", "CUDA out of memory", "TIMEOUT", "aborted", "skipped"}) {
        CHECK(failed_rows(fmt::format("dp,seconds,status\n8,1,ok\n4,1,{}\n", word)) == 1);
        CHECK(failed_rows(fmt::format("dp,seconds\n8,1\n4,{}\n", word)) == 1);
    }
    for (const char* word : {"", "-", "COMPLETED", "ok", "finished", "12"})
        CHECK(failed_rows(fmt::format("dp,seconds,status\n8,1,ok\n4,1,{}\n", word)) == 0);
}

TEST_CASE("the rule below the header of a Markdown table may be short, and other rows are none") {
    const Table table = parse_table("|dp|seconds|remark|\n|-|:-|-|\n|8|2|--|\n|-|-|--|\n", "runs.md");
    REQUIRE(table.rows.size() == 2);
    CHECK(table.rows[0].cells == std::vector<std::string>{"8", "2", "--"});
    CHECK(table.rows[1].cells == std::vector<std::string>{"-", "-", "--"});
}
