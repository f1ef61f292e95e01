// SPDX-License-Identifier: Apache-2.0
#include "lib/core/measured_value.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace tpx;

TEST_CASE("medians and quartiles") {
    CHECK(summarize({}).median == 0);
    CHECK(summarize({3, 1, 2}).median == 2);
    CHECK(summarize({1, 2, 3, 4}).median == 2.5);
    CHECK(summarize({1, 2, 3, 4, 5}).spread == doctest::Approx(2.0 / 3));
    CHECK(summarize({5, 5, 5}).spread == 0);
    CHECK(summarize({1, std::nan(""), 2, INFINITY, 3}) == summarize({1, 2, 3}));
}

TEST_CASE("one outlier changes the spread, not the median") {
    const MeasuredValue steady = combine(std::vector<MeasuredValue>{{100, 0.02}, {101, 0.03}, {99, 0.01}});
    CHECK(steady.median == 100);
    CHECK(steady.spread == doctest::Approx(0.02));
    const MeasuredValue drifting = combine(std::vector<MeasuredValue>{{100, 0.02}, {40, 0.01}, {101, 0.02}});
    CHECK(drifting.median == 100);
    CHECK(drifting.spread == doctest::Approx(0.61));
    CHECK(combine({}).median == 0);
    CHECK(combine(std::vector<MeasuredValue>{{0, 0}, {7, 0.5}}) == MeasuredValue{7, 0.5});
}

TEST_CASE("measurements agree within both spreads") {
    CHECK(agree({100, 0}, {96, 0}, 0.05, 0.5));
    CHECK_FALSE(agree({100, 0}, {94, 0}, 0.05, 0.5));
    CHECK(agree({100, 0.1}, {82, 0.1}, 0.05, 0.5));
    CHECK_FALSE(agree({100, 0.1}, {78, 0.1}, 0.05, 0.5));
    CHECK_FALSE(agree({100, 3}, {49, 3}, 0.05, 0.5));
    CHECK(agree({51, 3}, {100, 3}, 0.05, 0.5));
}
