// SPDX-License-Identifier: Apache-2.0
#include "formats/files/trace/cluster_file.hpp"
#include "formats/files/trace/events_file.hpp"
#include "formats/files/trace/outages_file.hpp"
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
