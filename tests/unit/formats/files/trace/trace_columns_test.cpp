// SPDX-License-Identifier: Apache-2.0
#include "formats/files/trace/cluster_file.hpp"
#include "formats/files/trace/events_file.hpp"
#include "formats/files/trace/log_cells.hpp"
#include "formats/files/trace/outages_file.hpp"
#include "formats/files/trace/rows.hpp"
#include "formats/files/trace/speeds_file.hpp"
#include "formats/files/trace/trace_file.hpp"

#include <doctest/doctest.h>

using namespace tpx;
using namespace tpx::formats;

TEST_CASE("unknown columns of outages and events, and misspelled ones of speeds, are refused") {
    const Cluster cluster = read_cluster("2x4");
    CHECK_THROWS_WITH_AS(parse_outages("host,begin,ende\nn1,10,20\n", "o", cluster),
                         "o: unknown column 'ende'; known columns: host, begin, end", Error);
    CHECK_THROWS_WITH_AS(parse_events("time,job,min_gpu\n1,a,2\n", "e", cluster, {}),
                         "e: unknown column 'min_gpu'; known columns: time, host, job, gpus, min_gpus, max_gpus, cpus",
                         Error);
    CHECK_THROWS_WITH_AS(parse_speeds("model,kid,gpus,rate\nm,V100,1,2\n", "s", cluster),
                         "s: unknown column 'kid'; did you mean 'kind'?", Error);
    CHECK(!parse_speeds("model,gpus,rate,remark\nm,1,2,fast\n", "s", cluster).empty());
}

TEST_CASE("moments are dates, seconds or milliseconds since 1970") {
    const Time moment = parse_timestamp("2023-03-01 00:30:00");
    for (const char* text : {"2023-03-01 00:30", "2023-03-01T00:30", "2023-03-01 00:30:00 UTC",
                             "2023-03-01 00:30:00.000Z", "2023-03-01 01:30+01:00", "1677630600", "1677630600000"})
        CHECK(parse_moment(text) == moment);
    for (const char* text : {"2023-03-01", "2023-03-01 00", "2023-03-01 00:61", "2023-03-01 00:30 CET", "1e15"})
        CHECK_THROWS_AS(parse_moment(text), Error);
}

TEST_CASE("arrivals may be dates or times since 1970, and durations may have days, hours and units") {
    const Cluster cluster = read_cluster("2x4");
    const auto jobs = [&](const std::string& rows) {
        ParsedTrace trace = parse_trace("name,arrival,gpus,duration\n" + rows, "t", cluster, {});
        REQUIRE(trace.bad.empty());
        return trace.jobs;
    };
    for (const std::string first : {"2026-01-05T10:00:00Z", "1767607200", "1767607200000", "2026/1/5 10:00:00"}) {
        const auto dated = jobs("b,2026-01-05T12:00:30+01:00,1,2h30m\na," + first + ",1,1-02:03:04\n");
        CHECK(dated.at(0).name == "a");
        CHECK(dated[0].arrival == 0);
        CHECK(dated[0].work == 93784e6);
        CHECK(dated[1].arrival == 3630 * second);
        CHECK(dated[1].work == 9000e6);
    }
    CHECK(jobs("a,0:01:30,1,90\n").at(0).arrival == 90 * second);
    const auto early = jobs("a,2001-01-05 10:00:00,1,5\nb,2001-01-05 10:00:10,1,5\n");
    CHECK(early.at(0).arrival == 0);
    CHECK(early[1].arrival == 10 * second);
    for (const std::string date : {"2026-01-05T10:00:00Z", "2001-01-05T10:00:00Z"})
        CHECK_THROWS_WITH_AS(jobs("a," + date + ",1,5\nb,10,1,5\n"),
                             "t: the arrival of line 2 is a date, but that of line 3 is a number of seconds", Error);
}

TEST_CASE("columns of nested objects in job logs have units, and GPUs per node and nodes like others") {
    const Cluster cluster = read_cluster("4x8");
    const auto job = [&](const std::string& header, const std::string& row) {
        const ParsedTrace trace = parse_trace("id,submit," + header + "\n1,0," + row + "\n", "t", cluster, {});
        REQUIRE(trace.bad.empty());
        REQUIRE(trace.jobs.size() == 1);
        return trace.jobs[0];
    };
    for (const std::string gpus : {"gpus_per_node", "resources.gpus_per_node"})
        for (const std::string nodes : {"nodes", "resources.nodes", "replicas,resources.nodes"}) {
            const std::string row = nodes.starts_with("replicas") ? "9,4,7,2" : "9,4,2";
            CHECK(job("duration," + gpus + "," + nodes, row).gpus == 8);
        }
    CHECK_THROWS_WITH_AS(
        job("duration,resources.gpus_per_node", "9,4"),
        doctest::Contains("also needs a number of nodes (such as num_nodes), because its GPUs are per node"), Error);
    for (const std::string unit : {"_min", "_mins", "_m", " [minutes]"}) {
        CHECK(job("timing.duration" + unit + ",gpus", "2,4").work == 120e6);
        CHECK(job("duration" + unit + ",gpus", "2,4").work == 120e6);
    }
    CHECK(job("timing.duration,limits.nvidia.com/gpu", "2,4").gpus == 4);
    CHECK(job("timing.duration,nvidia.com/gpu", "2,4").gpus == 4);
}
