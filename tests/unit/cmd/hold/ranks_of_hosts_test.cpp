// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/ranks_of_hosts.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>

using namespace tpx;
using namespace tpx::cli;

namespace {

using Given = std::vector<std::optional<std::vector<int>>>;
using Ranks = std::vector<std::vector<int>>;

}  // namespace

TEST_CASE("hosts that name no ranks get consecutive blocks, the larger ones first") {
    CHECK(ranks_of_hosts(Given(2), 4) == Ranks{{0, 1}, {2, 3}});
    CHECK(ranks_of_hosts(Given(3), 8) == Ranks{{0, 1, 2}, {3, 4, 5}, {6, 7}});
    CHECK(ranks_of_hosts(Given(1), 3) == Ranks{{0, 1, 2}});
    CHECK(ranks_of_hosts(Given(4), 2) == Ranks{{0}, {1}, {}, {}});
}

TEST_CASE("hosts hold the ranks that they name, and ranks that none names are not held") {
    CHECK(ranks_of_hosts(Given{{{1, 3}}, {{0}}}, 4) == Ranks{{1, 3}, {0}});
}

TEST_CASE("a rank on two hosts is refused, and --ranks on some hosts only") {
    CHECK_THROWS_WITH_AS(ranks_of_hosts(Given{{{0, 1}}, {{2}}, {{1, 3}}}, 4),
                         "--ranks: processes 0 and 2 both name rank 1; each rank is held on one host", Error);
    CHECK_THROWS_WITH_AS(ranks_of_hosts(Given{{{0, 1}}, std::nullopt}, 4),
                         "--ranks: process 1 has none; pass --ranks on every host, or on none", Error);
    try {
        ranks_of_hosts(Given{std::nullopt, {{0}}}, 4);
        FAIL("--ranks on one of two hosts was taken");
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::usage);
    }
}
