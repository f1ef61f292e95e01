// SPDX-License-Identifier: Apache-2.0
#include "cmd/output/progress.hpp"

#include <doctest/doctest.h>

using tpx::cli::progress_line;

TEST_CASE("progress shows the amount, the rate and the remaining time") {
    CHECK(progress_line("read", 0, 2'000'000'000, 0) == "read 0 B of 2.00 GB, 0 %");
    CHECK(progress_line("read", 1'000'000'000, 2'000'000'000, 4) ==
          "read 1.00 GB of 2.00 GB, 50 %, 250 MB/s, 4.00 s left");
    CHECK(progress_line("read", 2'000'000'000, 2'000'000'000, 8) == "read 2.00 GB of 2.00 GB, 100 %, 250 MB/s");
    CHECK(progress_line("read", 3, 2, 0) == "read 2 B of 2 B, 100 %");
    CHECK(progress_line("wfs", 500, 2000, 4, tpx::cli::ProgressUnit::jobs) ==
          "wfs: 500 of 2000 jobs, 25 %, 125 jobs/s, 12.0 s left");
    CHECK(progress_line("disk of n1", 3, 12, 4, tpx::cli::ProgressUnit::steps) ==
          "disk of n1: 3 of 12 steps, 25 %, 12.0 s left");
    CHECK(progress_line("fit", 50, 200, 4, tpx::cli::ProgressUnit::fits) ==
          "fit: 50 of 200 fits, 25 %, 12.5 fits/s, 12.0 s left");
    CHECK(progress_line("read", 0, 0, 1) == "read 0 B of 0 B");
}
