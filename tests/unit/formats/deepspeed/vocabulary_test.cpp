// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/target.hpp"

#include <doctest/doctest.h>

namespace tpx::formats::deepspeed {

TEST_CASE("the rows of a vocabulary for another number of tensor-parallel ranks") {
    // Without padding, and not of the default multiple: as it is, wherever that can be split.
    CHECK(guess_rows(96, 96, 2, 1).rows == 96);
    CHECK(guess_rows(96, 96, 1, 2).rows == 96);
    CHECK(guess_rows(96, 96, 1, 3).rows == 96);
    CHECK(guess_rows(96, 96, 1, 3).unit == 0);
    CHECK(guess_rows(96, 96, 1, 5).rows == 160);
    // Megatron's default of 128, with padding or without.
    CHECK(guess_rows(50257, 50304, 1, 2).rows == 50432);
    CHECK(guess_rows(50304, 50304, 1, 2).rows == 50432);
    CHECK(guess_rows(50257, 50432, 2, 1).rows == 50304);
    CHECK(guess_rows(50304, 50304, 1, 2).unit == 128);
    // Another multiple, which the padding shows.
    CHECK(guess_rows(100, 112, 2, 1).rows == 104);
    CHECK(guess_rows(100, 104, 1, 2).rows == 112);
}

}  // namespace tpx::formats::deepspeed
