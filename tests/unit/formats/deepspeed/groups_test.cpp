// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/groups.hpp"

#include <doctest/doctest.h>

#include <random>

namespace tpx::formats::deepspeed {

TEST_CASE("partitions are equal and even, and tile the group") {
    std::mt19937 random{5};
    for (int round = 0; round < 200; ++round) {
        std::vector<Index> numels, gaps;
        Index total = 0;
        for (auto n = random() % 6; n > 0; --n) {
            numels.push_back(random() % 20);
            gaps.push_back(random() % 3);
            total += numels.back() + gaps.back();
        }
        const int partitions = 1 + static_cast<int>(random() % 5);
        const GroupLayout layout = lay_out_group(numels, gaps, partitions);
        CHECK(layout.total == total);
        CHECK(layout.part % 2 == 0);
        CHECK(layout.part * partitions >= total);
        CHECK(layout.part * partitions - total < 2 * partitions);
        Index end = 0;
        for (int k = 0; k < partitions; ++k) {
            CHECK(layout.partition(k).begin == end);
            end = layout.partition(k).end;
        }
        CHECK(end == total);
        for (std::size_t p = 1; p < numels.size(); ++p)
            CHECK(layout.starts[p] == layout.starts[p - 1] + numels[p - 1] + gaps[p - 1]);
    }
}

TEST_CASE("partition sizes are those of DeepSpeed") {
    // 13 elements over 4 ranks: partitions of 4, the last with 3 of padding.
    const GroupLayout layout = lay_out_group(std::vector<Index>{13}, {}, 4);
    CHECK(layout.part == 4);
    CHECK(layout.partition(3) == Interval{12, 13});
    CHECK(part_of_parameter(13, 4) == 4);
    CHECK(part_of_parameter(12, 4) == 3);
}

}  // namespace tpx::formats::deepspeed
