// SPDX-License-Identifier: Apache-2.0
#include "lib/core/box.hpp"

#include <doctest/doctest.h>

using namespace tpx;

TEST_CASE("strides are row-major if the elements lie in C order without gaps") {
    CHECK(is_row_major({2, 3, 4}, {12, 4, 1}));
    CHECK(is_row_major({2, 3}, row_major({2, 3})));
    CHECK(is_row_major({}, {}));
    CHECK_FALSE(is_row_major({2, 3}, {1, 2}));  // transposed
    CHECK_FALSE(is_row_major({2, 3}, {6, 2}));  // every second element
    CHECK_FALSE(is_row_major({2, 3}, {4, 1}));  // a gap after each row
    CHECK_FALSE(is_row_major({2, 3, 4}, {12, 1, 3}));
}

TEST_CASE("strides of axes of one element or none are free") {
    CHECK(is_row_major({1, 3}, {7, 1}));
    CHECK(is_row_major({3, 1}, {1, 5}));
    CHECK(is_row_major({2, 1, 3}, {3, 9, 1}));
    CHECK(is_row_major({0, 3}, {0, 1}));
    CHECK_FALSE(is_row_major({3, 1}, {2, 1}));
}
