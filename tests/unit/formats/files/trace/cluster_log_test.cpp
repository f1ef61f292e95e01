// SPDX-License-Identifier: Apache-2.0
#include "lib/core/error.hpp"
#include "tests/unit/formats/files/trace/job_logs.hpp"

#include <doctest/doctest.h>

namespace tpx::formats {
namespace {

TEST_CASE("a job log is a trace whatever its columns are called") {
    const ParsedTrace helios = log_of(
        "job_id,user,vc,gpu_num,cpu_num,submit_time,start_time,end_time,duration\n"
        "7,u,v,8,32,2020-06-09 18:10:00,2020-06-09 18:20:00,2020-06-09 19:20:00,3600\n"
        "8,u,v,4,32,2020-06-09 18:00:00,2020-06-09 18:20:00,2020-06-09 18:21:00,60\n");
    REQUIRE(helios.jobs.size() == 2);
    CHECK(helios.format == "log");
    CHECK(helios.jobs[0].name == "8");
    CHECK(helios.jobs[0].arrival == 0);
    CHECK(helios.jobs[1].arrival == 600 * second);
    CHECK(helios.jobs[1].gpus == 8);
    CHECK(helios.jobs[1].cpus == 4);
    CHECK(helios.jobs[1].work == 3600e6);
    CHECK(helios.notes == std::vector<std::string>{"column 'user' is not used"});
    CHECK(helios.unknown_columns.empty());
}

TEST_CASE("columns of a job log that are not used are named") {
    const ParsedTrace trace =
        log_of("a,b,c,job_id,job_name,num_gpus,submit_time,duration,d,e,f,g,h\n,,,1,x,8,0,60,,,,,\n");
    REQUIRE(trace.jobs.size() == 1);
    CHECK(trace.notes ==
          std::vector<std::string>{"columns 'a', 'b', 'c', 'job_name', 'd', 'e', 'f', 'g' and 1 more are "
                                   "not used"});
}

TEST_CASE("the components of a heterogeneous job of Slurm are one job, whose steps do not count") {
    const std::string text =
        "JobID|Submit|Start|End|ElapsedRaw|ReqTRES|AllocTRES\n"
        "101_4|2026-01-01T00:00:00|2026-01-01T00:00:10|2026-01-01T00:01:10|60|cpu=4,gres/gpu=4|cpu=4,gres/gpu=4\n"
        "102+0|2026-01-01T00:02:00|2026-01-01T00:12:00|2026-01-01T00:22:00|600|cpu=4,gres/gpu=4|cpu=4,gres/gpu=4\n"
        "102+0.batch|2026-01-01T00:12:00|2026-01-01T00:12:00|2026-01-01T00:22:00|600||cpu=4,gres/gpu=4\n"
        "102+1|2026-01-01T00:02:00|2026-01-01T00:12:00|2026-01-01T00:22:00|600|cpu=2,gres/gpu=2|cpu=2,gres/gpu=2\n"
        "102+2|2026-01-01T00:02:00|2026-01-01T00:12:00|2026-01-01T00:22:00|600|cpu=6|cpu=6\n";
    const ParsedTrace trace = log_of(text);
    REQUIRE(trace.jobs.size() == 2);
    CHECK(trace.jobs[0].name == "101_4");
    CHECK(trace.jobs[1].name == "102");
    CHECK(trace.jobs[1].gpus == 6);
    CHECK(trace.jobs[1].cpus == 2);
    CHECK(trace.jobs[1].work == 600e6);
    CHECK(trace.notes ==
          std::vector<std::string>{"column 'ReqTRES' is not used", "merged the components of 1 heterogeneous job"});
    const std::string kinds =
        "JobID|Submit|ElapsedRaw|ReqTRES\n7+0|0|60|gres/gpu:a100=4,gres/gpu=4\n7+1|0|60|gres/gpu:a100=2,gres/gpu=2\n";
    CHECK(log_of(kinds).jobs.at(0).gpus == 6);
}

TEST_CASE("the runs of a job that Slurm requeued are one job, and a reused ID is another one") {
    const std::string head = "JobID|Submit|Start|End|ElapsedRaw|State|ReqTRES\n";
    const ParsedTrace trace =
        log_of(head +
               "101|2026-01-01T00:00:00|2026-01-01T00:00:10|2026-01-01T00:10:10|600|PREEMPTED|gres/gpu=2\n"
               "101.batch|2026-01-01T00:00:10|2026-01-01T00:00:10|2026-01-01T00:10:10|600|CANCELLED|\n"
               "101|2026-01-01T00:10:12|2026-01-01T00:20:00|2026-01-01T00:40:00|1200|COMPLETED|gres/gpu=2\n"
               "102|2026-01-01T00:01:00|2026-01-01T00:01:10|2026-01-01T00:02:10|60|COMPLETED|gres/gpu=4\n"
               "102|2026-01-02T00:00:00|2026-01-02T00:00:10|2026-01-02T00:00:40|30|COMPLETED|gres/gpu=1\n"
               "103+0|2026-01-01T00:01:00|2026-01-01T00:01:10|2026-01-01T00:02:10|60|NODE_FAIL|gres/gpu=4\n"
               "103+1|2026-01-01T00:01:00|2026-01-01T00:01:10|2026-01-01T00:02:10|60|NODE_FAIL|gres/gpu=2\n"
               "103+0|2026-01-01T00:03:00|2026-01-01T00:04:00|2026-01-01T00:05:30|90|COMPLETED|gres/gpu=4\n"
               "103+1|2026-01-01T00:03:00|2026-01-01T00:04:00|2026-01-01T00:05:30|90|COMPLETED|gres/gpu=2\n");
    REQUIRE(trace.bad.empty());
    REQUIRE(trace.jobs.size() == 4);
    CHECK(trace.jobs[0].name == "101");
    CHECK(trace.jobs[0].arrival == 0);
    CHECK(trace.jobs[0].work == 1800e6);
    CHECK(trace.jobs[1].name == "102");
    CHECK(trace.jobs[1].work == 60e6);
    CHECK(trace.jobs[2].name == "103");
    CHECK(trace.jobs[2].gpus == 6);
    CHECK(trace.jobs[2].work == 150e6);
    CHECK(trace.jobs[3].name == "102#2");
    CHECK(trace.jobs[3].arrival == 86'400 * second);
    CHECK(trace.notes == std::vector<std::string>{
                             "column 'State' is not used", "merged the components of 1 heterogeneous job",
                             "merged the runs of 2 requeued jobs", "renamed 1 job that has the ID of an earlier job"});
    // Without elapsed times, the time between the runs of a job does not count.
    const ParsedTrace without = log_of(
        "JobID|Submit|Start|End|AllocTRES\n"
        "7|2026-01-01T00:00:00|2026-01-01T00:00:10|2026-01-01T00:00:40|gres/gpu=2\n"
        "7|2026-01-01T00:01:00|2026-01-01T01:00:00|2026-01-01T01:01:00|gres/gpu=2\n");
    REQUIRE(without.jobs.size() == 1);
    CHECK(without.jobs[0].work == 90e6);
    // A suspended run has not ended, so the next row is of another job.
    const ParsedTrace suspended =
        log_of(head +
               "7|2026-01-01T00:00:00|2026-01-01T00:00:10|2026-01-01T00:01:10|60|SUSPENDED|gres/gpu=2\n"
               "7|2026-01-02T00:00:00|2026-01-02T00:00:10|2026-01-02T00:01:10|60|COMPLETED|gres/gpu=2\n");
    REQUIRE(suspended.jobs.size() == 2);
    CHECK(suspended.jobs[1].name == "7#2");
}

TEST_CASE("columns of job logs may have other words, separators and units of time") {
    const ParsedTrace pods = log_of(
        "pod_name,creation_timestamp,start_time,completion_time,gpu_request\n"
        "a,2026-03-01T00:00:00Z,2026-03-01T00:00:30Z,2026-03-01T01:00:30Z,8\n"
        "b,2026-03-01T00:10:00Z,,,4\n");
    REQUIRE(pods.jobs.size() == 1);
    CHECK(pods.jobs[0].name == "a");
    CHECK(pods.jobs[0].gpus == 8);
    CHECK(pods.jobs[0].work == 3600e6);
    const ParsedTrace units = log_of("Job,Submit Time (min),Run time [h],GPUs\nx,1,0.5,2\ny,11,1:30:00,4\n");
    REQUIRE(units.jobs.size() == 2);
    CHECK(units.jobs[0].work == 1800e6);
    CHECK(units.jobs[1].arrival == 600 * second);
    CHECK(units.jobs[1].work == 5400e6);
    const ParsedTrace nodes = log_of("id,arrival_time,duration_s,num_nodes,gpus_per_node\n1,0,60,2,8\n2,5,60,1,4\n");
    REQUIRE(nodes.jobs.size() == 2);
    CHECK(nodes.jobs[0].gpus == 16);
    CHECK(nodes.jobs[1].gpus == 4);
    // The number of nodes does not multiply GPUs of the whole job.
    CHECK(log_of("job_id,submit_time,duration,num_gpus,nodes\n1,0,60,16,2\n").jobs.at(0).gpus == 16);
}

TEST_CASE("objects of Kubernetes are refused with what to pass instead") {
    CHECK_THROWS_WITH_AS(log_of(R"({"apiVersion": "v1", "items": [], "kind": "List"})"),
                         doctest::Contains("a list of Kubernetes objects; pass a table with columns such as"), Error);
    CHECK_THROWS_WITH_AS(log_of("apiVersion: v1\nitems: []\n"), doctest::Contains("Kubernetes"), Error);
    CHECK_THROWS_WITH_AS(
        log_of(R"({"meta": {"slurm": {}}, "jobs": [{"job_id": 7, "tres": {"allocated": [{"type": "gres"}]}}]})"),
        "t: JSON of Slurm is not supported; pass the output of sacct -P with the columns in tpx-trace(5)", Error);
}

TEST_CASE("the output of Slurm's sacct: resources, steps, and jobs without GPUs") {
    const std::string header = "JobID|Submit|Start|End|Elapsed|ReqTRES|QOS\n";
    const std::string first = "2026-01-10T08:00:00|2026-01-10T08:00:05|2026-01-10T09:00:05";
    const ParsedTrace trace = log_of(header +  //
                                     "1|" + first +
                                     "|1-01:01:01|cpu=64,gres/gpu:h100=8,gres/gpu:a100=8|\n"  //
                                     "1.0|" +
                                     first +
                                     "|1-01:01:01|cpu=64,gres/gpu:h100=8|\n"  //
                                     "2|" +
                                     first +
                                     "|01:30|billing=8,cpu=8,gres/gpu=2,gres/gpu:h100=2|spot\n"  //
                                     "3|" +
                                     first +
                                     "|01:30|cpu=8,mem=64G|\n"                                             //
                                     "4|2026-01-10T08:00:00|Unknown|Unknown|00:00:00|cpu=8,gres/gpu=2|\n"  //
                                     "5|2026-01-10T08:00:00|2026-01-10T08:00:05|Unknown|00:10:00|gres/gpu=2|\n");
    REQUIRE(trace.bad.empty());
    REQUIRE(trace.jobs.size() == 2);
    CHECK(trace.jobs[0].gpus == 16);
    CHECK(trace.jobs[0].cpus == 4);
    CHECK(trace.jobs[0].work == 90061e6);
    CHECK(trace.jobs[0].guaranteed);
    CHECK(trace.jobs[1].gpus == 2);
    CHECK(trace.jobs[1].work == 90e6);
    CHECK_FALSE(trace.jobs[1].guaranteed);
    CHECK(trace.notes == std::vector<std::string>{"left out 1 job that had not ended", "left out 1 job that never ran",
                                                  "left out 1 job without GPUs"});
}

TEST_CASE("GPUs and cores of each instance, in percent or thousandths, become whole GPUs") {
    const ParsedTrace pai = log_of(
        "job_name,task_name,inst_num,start_time,end_time,plan_cpu,plan_gpu,gpu_type\n"
        "j,worker,3,100.0,160.5,600.0,150.0,T4\n");
    REQUIRE(pai.jobs.size() == 1);
    CHECK(pai.jobs[0].name == "j/worker");
    CHECK(pai.jobs[0].gpus == 6);
    CHECK(pai.jobs[0].cpus == 3);
    CHECK(pai.jobs[0].work == 60.5e6);
    CHECK(pai.notes == std::vector<std::string>{"1 job requested part of a GPU; rounded up to a whole GPU"});
    const ParsedTrace pods = log_of(
        "name,cpu_milli,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\n"
        "a,4000,1,460,0,90,10\nb,4000,2,1000,0,90,10\n");
    REQUIRE(pods.jobs.size() == 2);
    CHECK(pods.jobs[0].gpus == 1);
    CHECK(pods.jobs[1].cpus == 2);
    CHECK(pods.jobs[1].work == 80e6);
    CHECK(pods.notes.size() == 1);
}

TEST_CASE("rows of separators only, as spreadsheets export them, are no jobs") {
    const ParsedTrace trace = log_of("arrival,gpus,duration,,\n0,1,600,,\n,,,,\n5,1,600,,\n,,,,\n\n");
    CHECK(trace.jobs.size() == 2);
    CHECK(trace.bad.empty());
}

TEST_CASE("jobs may be nested objects") {
    const ParsedTrace trace =
        log_of(R"({"metadata": {"name": "a", "creationTimestamp": "2026-01-05T10:00:00Z"}, "status": {"startTime": )"
               R"("2026-01-05T10:00:30Z", "completionTime": "2026-01-05T11:00:30Z"}, "resources": {"gpus": 4}})");
    REQUIRE(trace.jobs.size() == 1);
    CHECK(trace.jobs[0].name == "a");
    CHECK(trace.jobs[0].gpus == 4);
    CHECK(trace.jobs[0].work == 3600e6);
}

TEST_CASE("GPUs per node need a number of nodes") {
    CHECK(log_of("id,submit,duration,gpus_per_node,nnodes\n1,0,9,4,2\n").jobs.at(0).gpus == 8);
    CHECK(log_of("id,submit,duration,gpus_per_node,workers,node_num\n1,0,9,4,7,2\n").jobs.at(0).gpus == 8);
    CHECK(log_of("id,submit,duration,nvidia.com/gpu\n1,0,9,4\n").jobs.at(0).gpus == 4);
    CHECK_THROWS_WITH_AS(
        log_of("id,submit,duration,gpus_per_node\n1,0,9,4\n"),
        doctest::Contains("also needs a number of nodes (such as num_nodes), because its GPUs are per node"), Error);
}

TEST_CASE("the kind of GPU matters if there are several") {
    const std::string text = "job_name,submit_time,duration,gpu_request,gpu_model\na,0,9,1,V100\nb,0,9,1,T4|V100\n";
    const auto kinds = [&](const std::string& cluster) {
        const ParsedTrace trace = log_of(text, cluster);
        REQUIRE(trace.jobs.size() == 2);
        return std::pair{trace.jobs[0].kind, trace.jobs[1].kind};
    };
    CHECK(kinds("1x8") == std::pair{any, any});
    CHECK(kinds("1x8:A100") == std::pair{any, any});
    CHECK(kinds("1x8:T4,1x8:V100") == std::pair{1, any});
    CHECK(log_of(text, "1x8:T4,1x8:A100").bad ==
          std::vector<std::string>{"t:2: column 'gpu_model': the cluster has no GPUs of kind 'V100'"});
}

TEST_CASE("Philly's log: the sum of attempts, and the GPUs of the largest") {
    const ParsedTrace trace =
        log_of(R"([{"jobid": "a", "vc": "v", "submitted_time": "2017-10-07 01:00:00", "attempts": [
        {"start_time": "2017-10-07 01:00:10", "end_time": "2017-10-07 01:01:10", "detail": [{"ip": "m", "gpus": ["g0"]}]},
        {"start_time": null, "end_time": "2017-10-07 01:02:00", "detail": []},
        {"start_time": "2017-10-07 01:02:00", "end_time": "2017-10-07 01:02:30",
         "detail": [{"ip": "m", "gpus": ["g0", "g1"]}, {"ip": "n", "gpus": ["g0"]}]}]},
        {"jobid": "b", "submitted_time": "2017-10-07 01:00:00", "attempts": []}])");
    REQUIRE(trace.jobs.size() == 1);
    CHECK(trace.jobs[0].gpus == 3);
    CHECK(trace.jobs[0].work == 90e6);
    CHECK(trace.notes == std::vector<std::string>{"left out 1 job that never ran"});
    const std::string attempts =
        R"("attempts": [{"start_time": "2017-10-07 01:00:10", "end_time": "2017-10-07 01:00:20",
        "detail": [{"gpus": ["g0"]}]}, {"end_time": "2017-10-07 01:02:00", "detail": []}])";
    const ParsedTrace others = log_of(
        " [{\"jobid\": \"a\", \"attempts\": [{}]}, {\"jobid\": \"b\", \"submitted_time\": "
        "\"2017-10-07 01:00:00\", " +
        attempts + "}]");
    REQUIRE(others.bad.size() == 1);
    CHECK(others.bad[0].starts_with("t:1: not a job of Philly's log"));
    REQUIRE(others.jobs.size() == 1);
    CHECK(others.jobs[0].work == 10e6);
    CHECK_THROWS_WITH_AS(log_of(R"([{"attempts": )"), "t: not JSON", Error);
}

}  // namespace
}  // namespace tpx::formats
