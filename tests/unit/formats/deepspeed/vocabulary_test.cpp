// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/target_step.hpp"

#include <doctest/doctest.h>

namespace tpx::formats::deepspeed {

TEST_CASE("the rows of a vocabulary for another number of tensor-parallel ranks") {
    // Nothing is recorded: as it is, wherever that can be split.
    CHECK(rows_for({96, 96, 2, 0}, 1).rows == 96);
    CHECK(rows_for({96, 96, 1, 0}, 2).rows == 96);
    CHECK(rows_for({101, 104, 1, 0}, 2).rows == 104);
    CHECK(rows_for({101, 104, 1, 0}, 2).unit == 0);
    CHECK(rows_for({50257, 50304, 1, 0}, 2).rows == 50304);
    // Where it cannot be split, the unit is guessed from the old padding.
    CHECK(rows_for({96, 96, 1, 0}, 5).rows == 160);
    CHECK(rows_for({100, 104, 2, 0}, 3).rows == 108);
    CHECK(rows_for({100, 104, 2, 0}, 3).unit == 4);
    // A recorded unit applies, if it explains the old padding.
    CHECK(rows_for({50257, 50304, 1, 128}, 2).rows == 50432);
    CHECK(rows_for({50257, 50432, 2, 128}, 1).rows == 50304);
    CHECK(rows_for({50257, 50432, 2, 128}, 1).unit == 128);
    CHECK(rows_for({100, 112, 2, 8}, 1).rows == 104);
    CHECK(rows_for({100, 104, 1, 128}, 2).rows == 104);
}

TEST_CASE("a vocabulary has its old rows after a change of tp and back") {
    for (const Index unit : {0, 1, 2, 4, 8, 12, 128})
        for (Index vocabulary = 90; vocabulary < 140; ++vocabulary)
            for (const int a : {1, 2, 4, 8})
                for (const int b : {1, 2, 4, 8}) {
                    const Index multiple = a * (unit == 0 ? 8 : unit);
                    const Index padded = (vocabulary + multiple - 1) / multiple * multiple;
                    const Index between = rows_for({vocabulary, padded, a, unit}, b).rows;
                    CHECK(between % b == 0);
                    CHECK(rows_for({vocabulary, between, b, unit}, a).rows == padded);
                }
}

}  // namespace tpx::formats::deepspeed
