// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/byte_ranges.hpp"

#include <doctest/doctest.h>

#include <random>
#include <vector>

using namespace tpx;

TEST_CASE("a set of ranges behaves like a table of bytes") {
    std::mt19937_64 random{1};
    constexpr std::uint64_t size = 60;
    for (int round = 0; round < 500; ++round) {
        ByteRanges set;
        std::vector<bool> bytes(size, false);
        for (std::uint64_t k = random() % 12; k > 0; --k) {
            const std::uint64_t begin = random() % size, end = std::min(size, begin + random() % 9);
            set.add({begin, end});
            for (std::uint64_t byte = begin; byte < end; ++byte) bytes[byte] = true;
        }
        std::uint64_t before = 0;
        for (std::uint64_t byte = 0; byte < size; ++byte) {
            CHECK(set.count_before(byte) == before);
            std::uint64_t gap = byte;
            while (gap < size && bytes[gap]) ++gap;
            CHECK(set.next_gap(byte) == gap);
            CHECK(set.contains({byte, byte + 1}) == bytes[byte]);
            before += bytes[byte];
        }
        CHECK(set.count() == before);
        for (std::size_t k = 1; k < set.ranges().size(); ++k) CHECK(set.ranges()[k - 1].end < set.ranges()[k].begin);
    }
}
