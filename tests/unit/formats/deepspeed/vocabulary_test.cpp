// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/target_step.hpp"

#include <doctest/doctest.h>

namespace tpx::formats::deepspeed {

TEST_CASE("rows of a vocabulary after a change of tp") {
    // No unit is recorded: rows that tp divides are kept.
    CHECK(new_vocabulary_rows({96, 96, 2, 0}, 1).rows == 96);
    CHECK(new_vocabulary_rows({96, 96, 1, 0}, 2).rows == 96);
    CHECK(new_vocabulary_rows({101, 104, 1, 0}, 2).rows == 104);
    CHECK(new_vocabulary_rows({101, 104, 1, 0}, 2).unit == 0);
    CHECK(new_vocabulary_rows({50257, 50304, 1, 0}, 2).rows == 50304);
    // If tp does not divide them, the unit is guessed from the old padding.
    CHECK(new_vocabulary_rows({96, 96, 1, 0}, 5).rows == 160);
    CHECK(new_vocabulary_rows({100, 104, 2, 0}, 3).rows == 108);
    CHECK(new_vocabulary_rows({100, 104, 2, 0}, 3).unit == 4);
    // A recorded unit applies if it agrees with the old padding.
    CHECK(new_vocabulary_rows({50257, 50304, 1, 128}, 2).rows == 50432);
    CHECK(new_vocabulary_rows({50257, 50432, 2, 128}, 1).rows == 50304);
    CHECK(new_vocabulary_rows({50257, 50432, 2, 128}, 1).unit == 128);
    CHECK(new_vocabulary_rows({100, 112, 2, 8}, 1).rows == 104);
    CHECK(new_vocabulary_rows({100, 104, 1, 128}, 2).rows == 104);
}

TEST_CASE("a vocabulary has its old rows after a change of tp and back") {
    for (const Index unit : {0, 1, 2, 4, 8, 12, 128})
        for (Index vocabulary = 90; vocabulary < 140; ++vocabulary)
            for (const int a : {1, 2, 4, 8})
                for (const int b : {1, 2, 4, 8}) {
                    const Index multiple = a * (unit == 0 ? 8 : unit);
                    const Index padded = (vocabulary + multiple - 1) / multiple * multiple;
                    const Index between = new_vocabulary_rows({vocabulary, padded, a, unit}, b).rows;
                    CHECK(between % b == 0);
                    CHECK(new_vocabulary_rows({vocabulary, between, b, unit}, a).rows == padded);
                }
}

}  // namespace tpx::formats::deepspeed
