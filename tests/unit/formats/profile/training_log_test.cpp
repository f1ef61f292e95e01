// SPDX-License-Identifier: Apache-2.0
#include "formats/profile/training_log.hpp"

#include "formats/profile/runs_file.hpp"
#include "lib/core/file.hpp"

#include <doctest/doctest.h>

using namespace tpx;
using namespace tpx::formats;

TEST_CASE("a log of Megatron-LM is a run") {
    const Table table = parse_training_log(read_file("testdata/profile/megatron.log"), "megatron.log");
    const std::vector<Run> runs = read_runs(table, default_columns(table), {std::nullopt, 1, 4});
    REQUIRE(runs.size() == 1);
    CHECK(to_string(runs[0].plan) == "dp=4,tp=2,pp=2,mb=8,zero=1,recompute=selective");
    CHECK(runs[0].batch == 64);
    CHECK(runs[0].allocation.total() == 16);
    CHECK(runs[0].seconds == doctest::Approx(1.5345));  // of the last three: the first two warm up
}

TEST_CASE("progress bars have seconds a step or steps a second") {
    const auto seconds = [](const char* text) {
        const Table table = parse_training_log(text, "log");
        return parse_number(table.rows[0].cells[table.find("seconds")]);
    };
    CHECK(seconds(" 1%| | 1/100 [9.00s/it]\r 2%| | [1.25s/it]\r 3%| | [1.50s/it]\r") == doctest::Approx(1.5));
    CHECK(seconds("[2.00it/s]\n[4.00it/s]\n[4.00it/s]\n") == doctest::Approx(0.25));
    CHECK_THROWS_WITH_AS(parse_training_log("nothing\n", "log"),
                         "log: 0 steps with times are in it; at least 3 are needed", Error);
}

TEST_CASE("files in every form that is known are read") {
    for (const char* file : {"testdata/profile/runs.csv", "testdata/profile/runs.json"}) {
        const Table table = parse_table(read_file(file), file);
        CHECK(read_runs(table, default_columns(table), {32, 2, 4}).size() >= 3);
    }
}
