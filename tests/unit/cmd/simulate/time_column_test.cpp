// SPDX-License-Identifier: Apache-2.0
#include "cmd/simulate/time_column.hpp"

#include <doctest/doctest.h>

namespace tpx::cli {

TEST_CASE("all times of a column have one unit, and small ones keep three digits where there is room") {
    const TimeColumn seconds{1.5, 90};
    CHECK(seconds.text(90) == "90.00 s");
    CHECK(seconds.text(1.5) == "1.50 s");
    const TimeColumn wide{0.388 * 3600, 2307 * 3600};  // one point of a sweep beside another
    CHECK(wide.text(0.388 * 3600) == "0.388 h");
    CHECK(wide.text(2307 * 3600) == "2307.000 h");
    const TimeColumn minutes{4 * 60, 119 * 60};
    CHECK(minutes.text(4 * 60) == "4.00 min");
    const TimeColumn hours{0.05 * 3600, 2200 * 3600};  // an hour would hide the smallest
    CHECK(hours.text(0.05 * 3600) == "3.0 min");
    CHECK(hours.text(2200 * 3600) == "132000.0 min");
    const TimeColumn same{3600, 3600};
    CHECK(same.text(3600) == "60.00 min");
}

TEST_CASE("no time is wider than a column") {
    for (double largest = 0.01; largest < 1e9; largest *= 3.7)
        for (double smallest = 0; smallest <= largest; smallest = 10 * smallest + 0.002) {
            const TimeColumn column{smallest, largest};
            CHECK(column.text(largest).size() <= 12);
        }
}

}  // namespace tpx::cli
