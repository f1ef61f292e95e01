// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/reflinks.hpp"

#include <doctest/doctest.h>

namespace tpx {
namespace {

constexpr std::uint64_t block = 4096, run = 64 * block;

Piece piece_at(std::uint64_t offset, Box box, Strides strides) { return {0, 0, offset, box, strides}; }

std::vector<EqualRun> cut(std::vector<EqualRun> runs) {
    cut_to_blocks(runs, block);
    return runs;
}

}  // namespace

TEST_CASE("a box is one run if its elements are contiguous in both pieces, in the same order") {
    const Piece rows = piece_at(100, {{0, 8}, {0, 4}}, {4, 1});
    const Piece half = piece_at(7, {{2, 6}, {0, 4}}, {4, 1});
    const auto equal = equal_run(rows, half, 2, {{3, 5}, {0, 4}});
    REQUIRE(equal);
    CHECK(equal->source == 100 + 3 * 4 * 2);
    CHECK(equal->target == 7 + 1 * 4 * 2);
    CHECK(equal->length == 2 * 4 * 2);
    CHECK_FALSE(equal_run(rows, half, 2, {{3, 5}, {0, 2}}));  // two runs
    CHECK(equal_run(rows, half, 2, {{3, 4}, {0, 2}}));        // a part of one row
    const Piece columns = piece_at(0, {{0, 8}, {0, 4}}, {1, 8});
    CHECK_FALSE(equal_run(rows, columns, 2, {{0, 8}, {0, 4}}));
    CHECK(equal_run(columns, columns, 2, {{0, 8}, {0, 4}}));
    const Piece part_of_rows = piece_at(0, {{0, 8}, {0, 2}}, {2, 1});
    CHECK_FALSE(equal_run(rows, part_of_rows, 2, {{0, 8}, {0, 2}}));
}

TEST_CASE("runs are trimmed to whole blocks, if they have the same offset in a block") {
    const auto whole = cut({{0, 0, 3 * block, block, run}});
    REQUIRE(whole.size() == 1);
    CHECK(whole[0].length == run);
    const auto inner = cut({{0, 0, 3 * block + 100, block + 100, run}});
    REQUIRE(inner.size() == 1);
    CHECK(inner[0].source == 4 * block);
    CHECK(inner[0].target == 2 * block);
    CHECK(inner[0].length == run - block);
    CHECK(cut({{0, 0, 1, 0, run}}).empty());
    CHECK(cut({{0, 0, 0, 0, 15 * block}}).empty());
}

TEST_CASE("runs that continue each other are joined") {
    const std::uint64_t odd = run + 10;
    CHECK(cut({{0, 1, 5, 5, odd}, {0, 1, 5 + odd, 5 + odd, run}}).size() == 1);
    // Whole blocks of 2 * run + 10 bytes, the first of which lacks 5 bytes.
    CHECK(cut({{0, 1, 5 + odd, 5 + odd, run}, {0, 1, 5, 5, odd}})[0].length == 2 * run - block);
    CHECK(cut({{0, 1, 5, 5, odd}, {1, 1, 5 + odd, 5 + odd, run}}).size() == 2);
    CHECK(cut({{0, 1, 5, 5, odd}, {0, 2, 5 + odd, 5 + odd, run}}).size() == 2);
    CHECK(cut({{0, 1, 5, 5, odd}, {0, 1, 6 + odd, 6 + odd, run}}).size() == 2);
}

}  // namespace tpx
