// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/rank_grid.hpp"

#include "lib/core/error.hpp"
#include "tests/support/chunks.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace tpx::formats::megatron {

TEST_CASE("a directory is named after tensor, pipeline and expert rank") {
    const auto names = [](const Layout& layout) {
        std::vector<std::string> found;
        for (const RankDirectory& directory : rank_directories(layout)) found.push_back(directory.path.string());
        return found;
    };
    CHECK(names({.tp = 2}) == std::vector<std::string>{"mp_rank_00", "mp_rank_01"});
    CHECK(names({.pp = 2, .dp = 2}) == std::vector<std::string>{"mp_rank_00_000", "mp_rank_00_001"});
    CHECK(names({.tp = 2, .ep = 2, .etp = 1}) == std::vector<std::string>{"mp_rank_00_000", "mp_rank_01_001"});
    CHECK(names({.pp = 2, .dp = 2, .ep = 2}) == std::vector<std::string>{"mp_rank_00_000_000", "mp_rank_00_000_001",
                                                                         "mp_rank_00_001_000", "mp_rank_00_001_001"});
}

TEST_CASE("layouts that split experts more finely than other tensors have no directory names") {
    CHECK(model_parts({.dp = 2, .etp = 2}).size() == 2);
    CHECK(test::error_of([] { rank_directories({.dp = 2, .etp = 2}); }) ==
          "layout: dp=2,etp=2: rank files are named after tensor ranks, so that two ranks with different parts of "
          "experts would write mp_rank_00; Megatron itself loses one of them");
    CHECK_THROWS_AS(rank_directories({.tp = 2, .dp = 2, .ep = 1, .etp = 4}), Error);
    CHECK_THROWS_AS(rank_directories({.tp = 3, .dp = 2, .etp = 2}), Error);
}

}  // namespace tpx::formats::megatron
