// SPDX-License-Identifier: Apache-2.0
#include "formats/files/trace/cluster_file.hpp"
#include "formats/files/trace/events_file.hpp"
#include "formats/files/trace/log_cells.hpp"
#include "formats/files/trace/outages_file.hpp"
#include "formats/files/trace/rows.hpp"
#include "formats/files/trace/speeds_file.hpp"

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
