// SPDX-License-Identifier: Apache-2.0
#include "lib/core/error.hpp"
#include "tests/unit/formats/files/trace/job_logs.hpp"

#include <doctest/doctest.h>

namespace tpx::formats {
namespace {

TEST_CASE("a run time is a duration, and a table without separators is not a log") {
    CHECK(log_of("job_id,submit_time,num_gpu,run_time\n1,0,1,100\n").jobs[0].work == 100e6);
    CHECK_THROWS_WITH_AS(
        log_of("JobID        Submit   Elapsed    AllocTRES\n100  2026-01-10T08:00:00 01:00:00 gres/gpu=1\n"),
        doctest::Contains("its columns are separated by blanks; pass columns separated by commas, tabs or '|', such as "
                          "those of sacct -P"),
        Error);
}

TEST_CASE("no job starts before its submission, except by a fraction of a second") {
    const ParsedTrace trace = log_of(
        "job_id,num_gpus,submit_time,start_time,end_time\n"
        "1,8,2023-03-01 00:10:00,2023-03-01 00:00:00,2023-03-01 01:00:00\n"
        "2,8,2023-03-01 00:10:00.7,2023-03-01 00:10:00,2023-03-01 01:00:00\n");
    CHECK(trace.bad ==
          std::vector<std::string>{"t:2: column 'start_time': '2023-03-01 00:00:00' is before the submission "
                                   "of the job, '2023-03-01 00:10:00'"});
    CHECK(trace.jobs.size() == 1);
}

TEST_CASE("missing times are unknown, and jobs with no run time are omitted") {
    const ParsedTrace pai = log_of(
        "job_name,inst_num,start_time,end_time,plan_gpu\na,1,0.0,160.5,100.0\nb,1,5.0,0.0,100.0\nc,,5.0,9.0,100.0\n");
    CHECK(pai.bad.empty());
    REQUIRE(pai.jobs.size() == 1);
    CHECK(pai.jobs[0].name == "c");
    CHECK(pai.notes.size() == 2);
    const ParsedTrace canceled =
        log_of("jobid,submit,start,end,elapsed,reqtres\n1,0,9,9,00:00:00,gres/gpu=1\n1.batch,0,9,9,0,\n");
    CHECK(canceled.jobs.empty());
    CHECK(canceled.notes == std::vector<std::string>{"left out 1 job that never ran"});
}

TEST_CASE("durations are seconds or as Slurm writes them") {
    const auto work = [](const std::string& text) {
        const ParsedTrace trace = log_of("job_id,submit_time,duration,gpu_num\na,0," + text + ",1\n");
        return trace.bad.empty() ? trace.jobs.at(0).work / 1e6 : -1;
    };
    CHECK(work("90") == 90);
    CHECK(work("1e2") == 100);
    CHECK(work("05:12") == 312);
    CHECK(work("00:00:01.5") == 1.5);
    CHECK(work("1-02:30:00") == 95400);
    CHECK(work("1-02:30") == 95400);
    CHECK(work("1-02") == 93600);
    for (const std::string wrong : {"1-", "-1-02", "1:2:3:4", "1-02:-30:00", "1::2", "1-2-3", ":", "1e-05x"})
        CHECK(work(wrong) == -1);
    CHECK(work("1e-05") == 1e-5);
}

TEST_CASE("durations may have words") {
    const auto work = [](const std::string& text) {
        const ParsedTrace trace = log_of("job_id,submit_time,duration,gpu_num\na,0,\"" + text + "\",1\n");
        return trace.bad.empty() ? trace.jobs.at(0).work / 1e6 : -1;
    };
    CHECK(work("2h30m") == 9000);
    CHECK(work("1d 2h 3m 4.5s") == 93784.5);
    CHECK(work("90 min") == 5400);
    CHECK(work("500000 us") == 0.5);
    CHECK(work("1 day, 2:03:04") == 93784);
    CHECK(work("0 days 02:03:04.500000") == 7384.5);
    CHECK(work("2 days 03:04:05") == 183845);
    CHECK(work("PT2H30M") == 9000);
    CHECK(work("P1DT12H") == 129600);
    for (const std::string wrong : {"P1M", "2 parsecs", "h", "1 day 2", "2h-3m", "UNLIMITED"}) CHECK(work(wrong) == -1);
}

TEST_CASE("durations in another unit than their column says are refused") {
    const std::string times = "id,submit,start,end,duration,gpus\n";
    CHECK_THROWS_WITH_AS(log_of(times + "1,0,100,5500,1.5,1\n2,0,100,7300,2,1\n3,0,100,700,9,1\n"),
                         "t: column 'duration' is read in seconds, but in 2 of 3 jobs it equals the time between start "
                         "and end only in hours; rename it to duration_h",
                         Error);
    CHECK_THROWS_WITH_AS(log_of(times + "1,0,100,700,600000,1\n"), doctest::Contains("rename it to duration_ms"),
                         Error);
    CHECK_THROWS_WITH_AS(log_of(times + "1,0,100,7300,7200000000000,1\n"), doctest::Contains("duration_ns"), Error);
    CHECK_THROWS_WITH_AS(log_of("id,submit,start,end,Run time [min],gpus\n1,0,100,5500,1.5,1\n"),
                         "t: column 'Run time [min]' is read in minutes, but in 1 of 1 job it equals the time between "
                         "start and end only in hours; rename it to Run time_h",
                         Error);
    CHECK_THROWS_WITH_AS(log_of("id,submit,start,end,run_time_s,gpus\n1,0,100,5500,90,1\n"),
                         doctest::Contains("rename it to run_time_min"), Error);
    // Durations may be rounded to whole units.
    CHECK_THROWS_WITH_AS(log_of(times + "1,0,100,5500,1,1\n2,0,100,5300,2,1\n3,0,100,4000,1,1\n"),
                         doctest::Contains("duration_h"), Error);
    CHECK_THROWS_WITH_AS(log_of(times + "1,0,0,130,2,1\n2,0,0,200,3,1\n3,0,0,95,2,1\n"),
                         doctest::Contains("duration_min"), Error);
    CHECK(log_of("id,submit,start,end,duration_h,gpus\n1,0,100,5500,1,1\n").notes.empty());
    CHECK(log_of("id,submit,start,end,duration_h,gpus\n1,0,100,5500,1.5,1\n").jobs[0].work == 5400e6);
    CHECK(log_of(times + "1,0,100,100.5,0.5,1\n").jobs[0].work == 0.5e6);
}

TEST_CASE("the limit of a job is not its duration") {
    const ParsedTrace pbs = log_of(
        "Job Id,qtime,start,end,Resource_List.walltime,Resource_List.ngpus,resources_used.walltime\n"
        "12.srv,1767603600,1767603610,1767607210,24:00:00,4,00:59:00\n");
    REQUIRE(pbs.jobs.size() == 1);
    CHECK(pbs.jobs[0].work == 3540e6);
    CHECK(pbs.jobs[0].gpus == 4);
    CHECK(pbs.notes == std::vector<std::string>{"column 'Resource_List.walltime' is not used"});
    // A walltime may be a limit; without start and end, there is nothing else.
    CHECK(log_of("id,submit,start,end,walltime,gpus\n1,0,10,70,86400,1\n").jobs[0].work == 60e6);
    CHECK(log_of("id,submit,walltime,gpus\n1,0,60,1\n").jobs[0].work == 60e6);
    CHECK(log_of("id,submit,walltime,elapsed_time,gpus\n1,0,86400,60,1\n").jobs[0].work == 60e6);
    CHECK(log_of("id,submit,start,end,walltime,elapsed_time,gpus\n1,0,10,90,86400,60,1\n").jobs[0].work == 60e6);
    CHECK(log_of("id,submit,start,end,walltime,resources_used.walltime,gpus\n1,0,10,90,86400,60,1\n").jobs[0].work ==
          60e6);
    CHECK_THROWS_AS(log_of("id,submit,gpus,job.Resource_List.walltime\n1,0,1,86400\n"), Error);
    CHECK_THROWS_AS(log_of("id,submit,requested_duration,gpus\n1,0,60,1\n"), Error);
}

TEST_CASE("columns whose meaning depends on the scheduler are submissions only in its logs") {
    // qtime is the time in the queue except in logs of PBS, and 'created' may have another meaning except in W&B.
    const std::string times = "1970-01-01T01:00:00,1970-01-01T02:00:00,2\n";
    for (const std::string column : {"qtime,35", "created,true", "created,1971-01-01T00:00:00"}) {
        const std::size_t comma = column.find(',');
        const ParsedTrace trace =
            log_of("id," + column.substr(0, comma) + ",start,end,gpus\n1," + column.substr(comma + 1) + "," + times +
                   "2,,1970-01-01T03:00:00,1970-01-01T04:00:00,2\n");
        CHECK(trace.bad.empty());
        REQUIRE(trace.jobs.size() == 2);
        CHECK(trace.jobs[1].arrival == 7200 * second);
    }
    const ParsedTrace runs =
        log_of("Name,Created,Runtime,GPU Count\na,1970-01-01T01:00:00Z,60,8\nb,1970-01-01T01:10:00Z,60,8\n");
    REQUIRE(runs.jobs.size() == 2);
    CHECK(runs.jobs[1].arrival == 600 * second);
}

TEST_CASE("a job that starts years after its submission is an error") {
    CHECK(log_of("id,submit,start,end,gpus\n1,35,2026-01-01T00:00:35,2026-01-01T01:00:00,2\n").bad ==
          std::vector<std::string>{"t:2: column 'start': '2026-01-01T00:00:35' is more than two years after the "
                                   "submission of the job, '35'"});
}

TEST_CASE("durations that do not fit start and end, or that may be in another unit, are noted") {
    const auto notes = [](const std::string& text) { return log_of(text).notes; };
    CHECK(notes("id,submit,start,end,duration,gpus\n1,0,100,200,200,1\n2,0,100,300,200,1\n3,0,9,20,20,1\n") ==
          std::vector<std::string>{"'duration' is used as the duration, although it differs from the time between "
                                   "start and end by more than 5 % in 2 of 3 jobs"});
    CHECK(notes("id,submit_time,duration,gpus\n1,1700000000000,3600000,1\n") ==
          std::vector<std::string>{"'duration' is read as seconds, but submissions are in smaller units; rename it to "
                                   "duration_ms if it is in milliseconds"});
    CHECK(notes("id,submit_time,duration_ms,gpus\n1,1700000000000,3600000,1\n").empty());
}

TEST_CASE("times of a log have zones and fractions, or are seconds") {
    const auto arrival = [](const std::string& time) {
        const ParsedTrace trace =
            log_of("job_id,submit_time,duration,gpu_num\na," + time + ",9,1\nb,1970-01-01 00:00:00,9,1\n");
        REQUIRE(trace.bad.empty());
        return trace.jobs.back().arrival;
    };
    CHECK(arrival("1970-01-02T00:00:00") == 86400 * second);
    CHECK(arrival("1970-01-02 00:00:00Z") == 86400 * second);
    CHECK(arrival("1970-01-02 00:00:00.25+08:00") == 57600 * second + second / 4);
    CHECK(arrival("1970-01-02 00:00:00-0130") == 91800 * second);
    CHECK(arrival("1970-01-02 00:00:00+08") == 57600 * second);
    CHECK(arrival("1970/1/2 0:00:00") == 86400 * second);
    CHECK(arrival("1970-01-02 00:00:00 +0000 UTC") == 86400 * second);
    CHECK(arrival("1970-01-02 00:00:00 +08:00") == 57600 * second);
    CHECK(arrival("1500000000000") == 1500000000 * second);
    CHECK(arrival("1500000000000000") == 1500000000 * second);
    CHECK(arrival("1500000000000000000") == 1500000000 * second);
    CHECK(arrival("77.5") == 77 * second + second / 2);
    for (const std::string wrong : {"1970-01-02 00:00:00+8", "1970-01-02 00:00:00 PST", "1970-1-2 00:00:00",
                                    "01/02/1970 00:00:00", "1970/1-2", "soon", "-4"})
        CHECK(log_of("job_id,submit_time,duration,gpu_num\na," + wrong + ",9,1\n").bad.size() == 1);
}

}  // namespace
}  // namespace tpx::formats
