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

TEST_CASE("a number of GPUs may have words behind it") {
    for (const char* gpus : {"8", "8.0", "8 GPUs", "8 gpu", "8x A100", "8xA100", "8*A100", "8 x H100-80GB",
                             "8 \xC3\x97 L4", "8 V100s", "8 A100 GPUs", "8x NVIDIA H100"})
        CHECK(cell_runs(fmt::format("tp,gpus,seconds\n2,{},1\n", gpus)).at(0).allocation.total() == 8);
    for (const char* gpus : {"8 nodes", "2 nodes x 8 A100", "2 DGX A100", "8x8 A100", "80GB A100", "910B2", "0 GPUs",
                             "1.5 GPUs", "A100", "8 x", "-8 GPUs", "999999 GPUs", "99999999999 GPUs"})
        CHECK(cell_refusal(fmt::format("tp,gpus,seconds\n2,{},1\n", gpus)).starts_with("runs.csv:2: column 'gpus'"));
    CHECK(cell_refusal("tp,gpus,hosts,seconds\n2,16,2 A100 GPUs,1\n").starts_with("runs.csv:2: column 'hosts'"));
}

TEST_CASE("GPUs are counted as Slurm writes them") {
    for (const char* tres : {"\"billing=8,cpu=64,gres/gpu=8,mem=100G,node=1\"", "\"cpu=64,gres/gpu:a100=8,node=1\"",
                             "\"gres/gpu:a100=8,gres/gpu=8\"", "\"gres/gpu:a100=4,gres/gpu:h100=4\"", "gres/gpu=8"}) {
        CHECK(cell_runs(fmt::format("tp,AllocTRES,seconds\n2,{},1\n", tres)).at(0).allocation.total() == 8);
        CHECK(cell_runs(fmt::format("tp,ReqTRES,seconds\n2,{},1\n", tres)).at(0).plan.dp == 4);
    }
    for (const char* gres : {"gpu:8", "gpu:a100:8", "gpu:8(IDX:0-7)", "\"gpu:a100:8(S:0,1)\"", "gres:gpu:8",
                             "\"nvme:1,gpu:v100:8\"", "gres/gpu:8"})
        CHECK(cell_runs(fmt::format("tp,nodes,GRES,seconds\n2,2,{},1\n", gres)).at(0).allocation.gpus ==
              std::vector{8, 8});
    CHECK(cell_runs("tp,nodes,gres,seconds\n1,2,gpu:a100,1\n").at(0).allocation.gpus == std::vector{1, 1});
    CHECK(cell_refusal("tp,AllocTRES,seconds\n2,\"cpu=64,node=1\",1\n").starts_with("runs.csv:2: column 'AllocTRES'"));
    CHECK(cell_refusal("tp,nodes,gres,seconds\n2,1,gpu:a100:many,1\n") ==
          "runs.csv:2: column 'gres': 'gpu:a100:many' has no valid number of GPUs; use gpu:N or gpu:TYPE:N with at "
          "most 64, or "
          "gres/gpu=N");
    for (const char* gres : {"gpu:8.0", "gpu:8K", "gpu:-8", "gpu:3090", "gpu:a100+"})
        CHECK(cell_refusal(fmt::format("tp,nodes,gres,seconds\n2,2,{},1\n", gres)).find("no valid number of GPUs") !=
              std::string::npos);
    CHECK(cell_refusal("tp,nodes,AllocGRES,seconds\n2,2,gpu:8,1\n").find("may hold gpus or per_host") !=
          std::string::npos);
}

TEST_CASE("times of steps may be in microseconds, and per step") {
    for (const char* column : {"Step time (\xC2\xB5s)", "Step time (\xCE\xBCs)"})
        CHECK(cell_runs(fmt::format("dp,{}\n2,5e5\n", column)).at(0).seconds == 0.5);
    for (const char* cell :
         {"500000 \xCE\xBCs", "0.5 sec/step", "0.5s/iter", "500 ms/step", "0.5 s per step", "0.5 +- 0.1 s"})
        CHECK(cell_runs(fmt::format("dp,step_time\n2,{}\n", cell)).at(0).seconds == 0.5);
    CHECK(cell_runs("dp,secs/step\n2,0.5\n").at(0).seconds == 0.5);
}

TEST_CASE("the nodes of Slurm's resources are hosts") {
    CHECK(cell_runs("tp,AllocTRES,seconds\n2,\"cpu=64,gres/gpu=16,node=2\",1\n").at(0).allocation.gpus ==
          std::vector{8, 8});
    CHECK(cell_refusal("tp,AllocTRES,seconds\n1,\"gres/gpu=15,node=2\",1\n")
              .starts_with("runs.csv:2: column 'AllocTRES': 15 GPUs cannot be divided"));
    CHECK(cell_refusal("tp,hosts,AllocTRES,seconds\n2,4,\"gres/gpu=16,node=2\",1\n") ==
          "runs.csv:2: column 'AllocTRES': 2 hosts here, but the row has 4");
    CHECK(cell_refusal("tp,gpus_per_node,AllocTRES,seconds\n2,8,\"gres/gpu=16,node=4\",1\n") ==
          "runs.csv:2: column 'AllocTRES': 16 GPUs at 8 per host need 2 hosts, but the row has 4");
    CHECK(cell_refusal("tp,AllocTRES,seconds\n2,\"gres/gpu=16,node=2+\",1\n") ==
          "runs.csv:2: column 'AllocTRES': 'node=2+' is not a number of hosts");
    const std::string both = "tp,ReqTRES,AllocTRES,seconds\n2,\"gres/gpu=8\",\"gres/gpu=16,node=2\",1\n";
    CHECK(cell_runs(both).at(0).allocation.gpus == std::vector{8, 8});
}

TEST_CASE("GPUs beside their type are those of the job if the row has GPUs per host only") {
    CHECK(cell_runs("tp,per_host,GPU,seconds\n2,8,A100 x 16,1\n").at(0).allocation.gpus == std::vector{8, 8});
    CHECK(cell_runs("tp,per_host,GPU,seconds\n2,8,8x A100,1\n").at(0).allocation.gpus == std::vector{8});
    CHECK(cell_runs("tp,dp,per_host,GPU,seconds\n8,4,8,8x A100,1\n").at(0).allocation.total() == 32);
}

TEST_CASE("hosts and their GPUs may be one column") {
    for (const char* column : {"nodes x gpus", "Hosts x GPUs", "Nodes \xC3\x97 GPUs"})
        CHECK(cell_runs(fmt::format("tp,{},seconds\n2,2 x 8,1\n", column)).at(0).allocation.gpus == std::vector{8, 8});
}

TEST_CASE("text in place of a time says that a row did not run") {
    for (const char* word :
         {"--", "\xE2\x80\x94", "\xE2\x9C\x97", "\xE2\x9D\x8C", "failed (NCCL)", "TBD", "err", "N.A.", "diverged",
          "#N/A", "#DIV/0!", "**OOM**", "OOM*", "(OOM)", "out-of-memory", "did not fit", "CUDA error"})
        CHECK(failed_rows(fmt::format("dp,seconds\n2,{}\n2,1\n", word)) == 1);
    for (const char* word :
         {"failed (oom)", "error: oom", "OOM: 80 GB", "incomplete", "\xE2\x9D\x8C", "killed (OOM)", "\xE2\x9D\x8C OOM",
          "\"OOM, 80 GB\"", "OOMed", "Failed.", "TIMEOUT+", "timeout after 30 min", "crash: nccl",
          "diverged at step 100", "canceled by user", "REVOKED"})
        CHECK(failed_rows(fmt::format("dp,seconds,status\n2,3,{}\n2,1,ok\n", word)) == 1);
    for (const char* word :
         {"error-free", "error-free run", "OOM: no", "error: none", "Failed=0/8", "failures: 0 of 64", "done",
          "running", "\"preempted once, resumed, completed\"", "hang detection on"})
        CHECK(failed_rows(fmt::format("dp,seconds,status\n2,3,{}\n2,1,ok\n", word)) == 0);
    CHECK(cell_refusal("dp,seconds\n2,fast\n") == "runs.csv:2: column 'seconds': 'fast' is not a number");
}

TEST_CASE("columns that change the plan are not ignored") {
    const Run run = cell_runs("TP degree,CP degree,# of GPUs,AC,gas,micro_batch,seconds\n2,2,16,full,4,1,1\n").at(0);
    CHECK(to_string(run.plan) == "dp=4,tp=2,cp=2,ga=4,recompute=full");
    CHECK(cell_runs("tp,Total GPUs,recompute_granularity,seconds\n2,4,selective,1\n").at(0).plan.recompute ==
          Recompute::selective);
    for (const char* column : {"sharding_strategy", "sequence_parallel_size", "ulysses_degree"})
        CHECK(cell_refusal(fmt::format("tp,gpus,{},seconds\n2,4,2,1\n", column)).find("may hold") != std::string::npos);
    for (const char* column : {"global batch (tokens)", "global_batch_size (tokens)"})
        CHECK(cell_refusal(fmt::format("tp,gpus,{},seconds\n2,4,2,1\n", column)).find("counts tokens") !=
              std::string::npos);
    CHECK(cell_refusal("tp,gpu,seconds\n2,8,1\n") ==
          "runs.csv:2: column 'gpu': '8' is a number, not a GPU type; if it counts GPUs, rename the column to gpus");
}

TEST_CASE("a type of GPU may come with their number") {
    const std::vector<Run> runs = cell_runs("tp,hardware,seconds\n2,8x A100,1\n2,16x A100 GPUs,2\n2,A100,2\n");
    CHECK(runs.at(0).allocation.total() == 8);
    CHECK(runs.at(1).allocation.total() == 16);
    CHECK(runs.at(1).plan.dp == 8);
    CHECK(runs.at(2).allocation.total() == 2);
    CHECK(cell_refusal("tp,hardware,seconds\n2,8x A100,1\n2,8x H100,2\n").find("rows mix 'A100' and 'H100'") !=
          std::string::npos);
    for (const char* type : {"3090", "910B2", "80GB A100", "2080Ti-11GB", "3070 Ti 8GB", "2 DGX A100", "2x DGX A100",
                             "8 A100", "0x A100", "99999x A100"})  // types, not numbers
        CHECK(cell_runs(fmt::format("tp,gpu_type,seconds\n2,{},1\n", type)).at(0).allocation.total() == 2);
}

TEST_CASE("the number of GPUs may be behind their type") {
    for (const char* cell : {"A100 x 8", "A100x8", "A100 x8", "A100*8", "A100 (x8)", "NVIDIA A100-SXM4-80GB (x8)",
                             "A100 \xC3\x97 8", "NVIDIA RTX 6000 x 8"}) {
        CHECK(cell_runs(fmt::format("tp,hardware,seconds\n2,{},1\n", cell)).at(0).allocation.total() == 8);
        CHECK(cell_runs(fmt::format("tp,gpus,seconds\n2,{},1\n", cell)).at(0).plan.dp == 4);
    }
    for (const char* type : {"RTX6000", "NVIDIA RTX 6000", "MI300X", "A100 (80)", "x 8", "A100 x"})
        CHECK(cell_runs(fmt::format("tp,gpu_type,seconds\n2,{},1\n", type)).at(0).allocation.total() == 2);
}

TEST_CASE("GPUs beside a type are not counted if the row has hosts, which may have as many each") {
    CHECK(cell_runs("tp,nodes,gpus_per_node,hardware,seconds\n2,2,8,8x A100,1\n").at(0).allocation.total() == 16);
    CHECK(cell_runs("tp,dp,nodes,hardware,seconds\n8,4,4,8x A100,1\n").at(0).allocation.total() == 32);
    CHECK(cell_runs("tp,gpus,hardware,seconds\n2,16,8x A100,1\n").at(0).allocation.total() == 16);
}

TEST_CASE("a name of a model may be a number") {
    for (const char* model : {"6.7", "500000", "8x A100"})
        CHECK(cell_runs(fmt::format("dp,model,seconds\n2,{},1\n", model)).size() == 1);
}

TEST_CASE("a rate in a table of a report is that of one GPU where its name says so") {
    const auto seconds = [](const std::string& column) {
        const Table table = parse_table(fmt::format("dp,{}\n4,1024\n", column), "runs.csv");
        return read_runs(table, default_columns(table), {32, 2, 4, 2048}).at(0).seconds;
    };
    for (const char* column : {"Throughput (tokens/s/GPU)", "tokens/s per GPU", "TGS", "Throughput (tokens/sec/GPU)"})
        CHECK(seconds(column) == 16);
    for (const char* column : {"Throughput (tokens/sec)", "throughput_tokens_per_second"}) CHECK(seconds(column) == 64);
    CHECK(seconds("Throughput (samples/sec)") == 32.0 / 1024);
}

TEST_CASE("steps per hour are a rate") {
    CHECK(cell_runs("dp,steps/hour\n2,7200\n").at(0).seconds == 0.5);
    CHECK(cell_runs("dp,steps_per_hour\n2,7200\n").at(0).seconds == 0.5);
}

TEST_CASE("the tokens of a sample are those of all rows that ran") {
    const auto sequence = [](const std::string& csv) {
        const Table table = parse_table(csv, "runs.csv");
        return common_sequence(table, default_columns(table));
    };
    CHECK(sequence("dp,seconds,seq_len\n1,1,2048\n2,1,2048\n") == 2048);
    CHECK(sequence("dp,seconds,seq_len\n1,1,2048\n2,1,\n") == 2048);
    CHECK(sequence("dp,seconds,seq_len\n1,1,2048\n2,OOM,1024\n4,OOM,abc\n") == 2048);
    CHECK(sequence("dp,seconds,seq_len,status\n1,1,2048,ok\n2,1,1024,FAILED\n") == 2048);
    CHECK(sequence("dp,seconds\n1,1\n") == std::nullopt);
    CHECK_THROWS_WITH(sequence("dp,seconds,seq_len\n1,1,2048\n2,1,4096\n"),
                      "runs.csv:3: column 'seq_len': rows mix 2048 and 4096 tokens per sample; select one with [where] "
                      "in the --columns file");
}

TEST_CASE("an x behind a type is a sign of multiplication only beside a number, and hosts are no GPUs") {
    for (const char* gpu : {"A100 x 8", "A100x8", "A100 (x8)", "MI300X x 8", "8x MI300X"})
        CHECK(cell_runs(fmt::format("tp,gpu,seconds\n2,{},1\n", gpu)).at(0).allocation.total() == 8);
    for (const char* gpu : {"A100 PCIe x16", "MI300X 8", "DGX-A100 x 4", "p4d.24xlarge x 4", "cluster1 x 4",
                            "a3-highgpu-8g x 2", "H100 PCIe (x16)", "NVIDIA A100 NVLink x12"})
        CHECK(cell_runs(fmt::format("tp,gpu,seconds\n2,{},1\n", gpu)).at(0).allocation.total() == 2);
    for (const char* gpu : {"8", "8.0", "1024"})
        CHECK(cell_refusal(fmt::format("tp,gpu,seconds\n2,{},1\n", gpu)).find("is a number, not a GPU type") !=
              std::string::npos);
    CHECK(cell_runs("tp,gpu,seconds\n2,3090,1\n").at(0).allocation.total() == 2);
}

TEST_CASE("columns that may be of a host or of the job, or change the plan, are not guessed") {
    for (const char* column : {"devices", "num_devices", "_n_gpu", "sp", "data_parallel_shard_degree"})
        CHECK(cell_refusal(fmt::format("tp,{},seconds\n7,8,1\n", column)).find("may hold") != std::string::npos);
    CHECK(cell_refusal("dp,batch size (tokens),seconds\n8,4194304,1\n") ==
          "runs.csv:1: column 'batch size (tokens)' counts tokens; divide them by the tokens of a sample in a column "
          "batch, "
          "or list it in a --columns file under ignore");
}
