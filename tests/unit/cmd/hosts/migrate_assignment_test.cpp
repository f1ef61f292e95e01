// SPDX-License-Identifier: Apache-2.0
#include "cmd/hosts/migrate_assignment.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tpx;
using namespace tpx::cli;

TEST_CASE("an assignment leaves out devices of the hosts that hold the least of the state") {
    std::vector<Host> hosts(4);
    for (Host& host : hosts) {
        host.gpus = 2;
        host.device_type = "A";
    }
    hosts[3].device_type = "B";
    const formats::BatchAssignment assignment{
        .file = "a.toml", .batch = 12, .devices = {{"A", 3, 4, 4}}};  // of 6, and none of the 2 devices of type B
    const auto left_out = [&](const std::vector<std::uint64_t>& held) {
        std::vector<std::size_t> counts;
        for (const Host& host : assigned_hosts(assignment, parse_layout("dp=3"), hosts, held))
            counts.push_back(host.lost_devices.size());
        return counts;
    };
    CHECK(left_out({0, 0, 0, 0}) == std::vector<std::size_t>{0, 1, 2, 2});
    CHECK(left_out({5, 0, 9, 7}) == std::vector<std::size_t>{1, 2, 0, 2});
    CHECK(left_out({0, 8, 9, 0}) == std::vector<std::size_t>{2, 1, 0, 2});
}
