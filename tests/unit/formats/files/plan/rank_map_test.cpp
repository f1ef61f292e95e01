// SPDX-License-Identifier: Apache-2.0
#include "formats/files/plan/rank_map.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>

using namespace tpx;
using formats::parse_rank_map;

namespace {

std::string refusal(std::string_view text, int ranks = 4) {
    const std::vector<Host> hosts = uniform_hosts(2, 2);
    try {
        parse_rank_map(text, "map", hosts, ranks);
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::usage);
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("three ways to specify where ranks are") {
    const std::vector<Host> hosts = uniform_hosts(2, 2);
    const std::vector<RankLocation> wanted{{1, 2}, {1, 3}, {0, 0}, {0, 1}};
    CHECK(parse_rank_map("0-1 host1  # first\n\n2-3 host0\n", "map", hosts, 4) == wanted);
    CHECK(parse_rank_map("host1\nhost1\nhost0\nhost0", "map", hosts, 4) == wanted);
    CHECK(parse_rank_map("rank 0=host1 slot=0\nrank 1=host1 slot=1\nrank 2=host0 slot=0\nrank 3=host0 slot=1\n", "map",
                         hosts, 4) == wanted);
    CHECK(parse_rank_map("0 host1 1\n1 host1 0\n2-3 host0 0", "map", hosts, 4)[0] == RankLocation{1, 3});
}

TEST_CASE("maps that contradict themselves, the hosts or the layout are refused") {
    CHECK(refusal("0-3 host2") == "map:1: host 'host2' is not among the 2 hosts");
    CHECK(refusal("0-2 host0") == "map:1: rank 2: host 'host0' has only 2 devices");
    CHECK(refusal("0-1 host0\n2 host1") == "map: has no line for rank 3 of 4");
    CHECK(refusal("0-1 host0\n1-2 host1") == "map:2: rank 1 is already on line 1");
    CHECK(refusal("0-1 host0\n2-4 host1") == "map:2: rank 4 is beyond the 4 ranks of the old layout");
    CHECK(refusal("0 host0 1\n1 host0 1") == "map:2: rank 1: device 1 of 'host0' is taken by line 1");
    CHECK(refusal("x host0") == "map:1: 'RANKS HOST [DEVICE]' was expected, such as '0-7 n0'");
    CHECK(refusal("rank 0 host0") == "map:1: 'rank N=HOST slot=S' was expected");
    CHECK(refusal("0-1 host0\n2-3 host1", 3) == "map:2: rank 3 is beyond the 3 ranks of the old layout");
}

TEST_CASE("ranks of lost hosts have no seat, spare hosts have no old ranks") {
    std::vector<Host> hosts = uniform_hosts(3, 2);
    hosts[0].spare = true;
    hosts[1].lost = true;
    CHECK(formats::rank_locations_in_order(hosts, 4) == std::vector<RankLocation>{{}, {}, {2, 4}, {2, 5}});
    CHECK_THROWS_AS(formats::rank_locations_in_order(hosts, 5), Error);
}

TEST_CASE("a rank map reads back as the same seats") {
    const std::vector<Host> hosts = uniform_hosts(2, 2);
    const Placement placement{.devices = {3, 2, 0, 1},
                              .blocks = {{.begin = 0, .end = 2, .host = 1}, {.begin = 2, .end = 4, .host = 0}}};
    const std::vector<RankLocation> rank_locations{{1, 3}, {1, 2}, {0, 0}, {0, 1}};
    CHECK(formats::rank_map(hosts, placement) == "0 host1 1\n1 host1 0\n2 host0 0\n3 host0 1\n");
    CHECK(parse_rank_map(formats::rank_map(hosts, placement), "f", hosts, 4) == rank_locations);
}

TEST_CASE("the slots of a rankfile are cores, not devices") {
    const std::vector<Host> hosts = uniform_hosts(2, 2);
    const std::string text =
        "rank 0=host1 slot=0-15\nrank 1=host1 slot=16-31\nrank 2=host0 slot=0:*\nrank 3=host0 slot=9\n";
    CHECK(parse_rank_map(text, "f", hosts, 4) == std::vector<RankLocation>{{1, 2}, {1, 3}, {0, 0}, {0, 1}});
}
