// SPDX-License-Identifier: Apache-2.0
// Blocks of consecutive ranks, compared with all ways to cut ranks into blocks.

#include "lib/change/cut_blocks.hpp"

#include "lib/check/expected_blocks.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/layout.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>

using namespace tpx;

namespace {

std::vector<Host> hosts_of(std::initializer_list<int> gpus) {
    std::vector<Host> hosts;
    for (int count : gpus) hosts.push_back({.name = fmt::format("n{}", hosts.size()), .gpus = count});
    return hosts;
}

std::vector<int> sizes(const std::vector<Host>& hosts, int ranks, int group) {
    std::vector<int> sizes(hosts.size(), 0);
    for (const Block& block : cut_blocks(hosts, ranks, group)) sizes[block.host] = block.end - block.begin;
    return sizes;
}

/// Whether some cut of the ranks into one block for each host, hosts in any order, splits no group.
bool fits_whole(const std::vector<Host>& hosts, int ranks, int group) {
    std::vector<bool> used(hosts.size(), false);
    const std::function<bool(int)> go = [&](int begin) {
        if (begin == ranks) return true;
        for (std::size_t h = 0; h < hosts.size(); ++h) {
            if (used[h]) continue;
            used[h] = true;
            for (int end = begin + 1; end <= std::min(begin + free_devices(hosts[h]), ranks); ++end) {
                if (end % group == 0 && go(end)) return true;
            }
            used[h] = false;
        }
        return false;
    };
    return go(0);
}

}  // namespace

TEST_CASE("a group is split only if no cut keeps all groups whole") {
    std::mt19937 engine{14};
    const auto number = [&](int from, int to) { return std::uniform_int_distribution{from, to}(engine); };
    int whole = 0, split = 0, split_with_spares = 0, idle = 0, losses = 0;
    for (int round = 0; round < 20'000; ++round) {
        std::vector<Host> hosts(static_cast<std::size_t>(number(1, 5)));
        int places = 0;
        for (Host& host : hosts) {
            host.gpus = number(1, 8);
            host.lost = number(1, 10) == 1;
            host.spare = number(1, 6) == 1;
            for (int device = 0; device < host.gpus; ++device) {
                if (number(1, 12) == 1) host.lost_devices.push_back(device);
            }
            places += free_devices(host);
            losses += !host.lost && !host.lost_devices.empty();
        }
        const int group = number(1, 6);
        if (places < group) continue;
        const int ranks = group * number(1, places / group);
        CAPTURE(round);
        const std::vector<Block> blocks = cut_blocks(hosts, ranks, group);

        std::set<std::uint32_t> used;
        std::int32_t next = 0;
        bool after_spare = false;
        for (const Block& block : blocks) {
            REQUIRE(block.begin == next);
            REQUIRE(block.end > block.begin);
            REQUIRE(block.end - block.begin <= free_devices(hosts[block.host]));
            REQUIRE(used.insert(block.host).second);
            REQUIRE((hosts[block.host].spare || !after_spare));
            after_spare = hosts[block.host].spare;
            next = block.end;
        }
        REQUIRE(next == ranks);

        const std::vector<std::int32_t> groups = split_groups(blocks, group);
        REQUIRE(groups.empty() == fits_whole(hosts, ranks, group));
        (groups.empty() ? whole : split) += group > 1;
        if (!groups.empty() && after_spare) {  // only if the other hosts and fewer spare ones are not enough
            std::int64_t room = -free_devices(hosts[blocks.back().host]);
            for (const Host& host : hosts) room += host.spare ? 0 : free_devices(host);
            for (const Block& block : blocks) room += hosts[block.host].spare ? free_devices(hosts[block.host]) : 0;
            REQUIRE(room < ranks);
            ++split_with_spares;
        }
        for (std::int32_t g : groups) {
            std::set<std::uint32_t> on;
            for (const Block& block : blocks)
                if (block.begin < (g + 1) * group && block.end > g * group) on.insert(block.host);
            REQUIRE(on.size() > 1);
        }

        // The checker gets the same result independently.
        std::vector<std::uint32_t> devices;
        const std::vector<std::uint32_t> order = hosts_for_ranks(hosts);
        for (std::uint32_t host : order) devices.push_back(static_cast<std::uint32_t>(free_devices(hosts[host])));
        const auto is_spare = [&](std::uint32_t host) { return hosts[host].spare; };
        const auto spares = static_cast<std::size_t>(std::ranges::count_if(order, is_spare));
        const std::vector<std::uint64_t> expected = expected_blocks(devices, spares, ranks, group);
        std::size_t b = 0;
        for (std::size_t i = 0; i < order.size(); ++i) {
            if (expected[i] == 0) continue;
            REQUIRE(b < blocks.size());
            REQUIRE(blocks[b].host == order[i]);
            REQUIRE(static_cast<std::uint64_t>(blocks[b].end - blocks[b].begin) == expected[i]);
            idle += expected[i] < devices[i] && blocks[b].end < ranks;
            ++b;
        }
        REQUIRE(b == blocks.size());
    }
    CHECK(whole > 3000);
    CHECK(split > 1000);
    CHECK(split_with_spares > 300);
    CHECK(idle > 1000);
    CHECK(losses > 3000);
}

TEST_CASE("groups of ranks on unequal hosts") {
    CHECK(sizes(hosts_of({4, 8}), 8, 8) == std::vector<int>{0, 8});
    CHECK(sizes(hosts_of({6, 8, 8}), 20, 4) == std::vector<int>{4, 8, 8});
    CHECK(sizes(hosts_of({8, 7, 8}), 20, 4) == std::vector<int>{8, 4, 8});
    CHECK(sizes(hosts_of({6, 8}), 12, 4) == std::vector<int>{4, 8});
    CHECK(sizes(hosts_of({6, 8}), 12, 1) == std::vector<int>{6, 6});
    CHECK(sizes(hosts_of({6, 6}), 12, 4) == std::vector<int>{6, 6});  // there is no other way
    CHECK(split_groups(cut_blocks(hosts_of({6, 6}), 12, 4), 4) == std::vector<std::int32_t>{1});
    CHECK(sizes(hosts_of({8, 8}), 16, 16) == std::vector<int>{8, 8});  // nor for groups larger than hosts
    CHECK(sizes(hosts_of({2, 8, 8}), 16, 16) == std::vector<int>{2, 8, 6});
    std::vector<Host> hosts = hosts_of({8, 8, 8});
    hosts[0].lost_devices = {3};
    CHECK(sizes(hosts, 16, 4) == std::vector<int>{4, 8, 4});
    hosts[1].spare = true;
    CHECK(sizes(hosts, 12, 4) == std::vector<int>{4, 0, 8});
    CHECK(sizes(hosts, 16, 8) == std::vector<int>{0, 8, 8});  // a spare host rather than a split group
    CHECK(sizes(hosts, 20, 4) == std::vector<int>{4, 8, 8});
    hosts = hosts_of({3, 1, 1, 1});
    hosts[3].spare = true;
    CHECK(sizes(hosts, 4, 2) == std::vector<int>{2, 1, 1, 0});  // a group is split in any case
    hosts = hosts_of({8, 8, 8});
    hosts[0].lost_devices = {3};
    hosts[1].spare = true;
    CHECK_THROWS_WITH_AS(cut_blocks(hosts, 24, 4), "24 ranks do not fit on 3 hosts with 23 GPUs in all", Error);
}

TEST_CASE("TP groups span tp consecutive ranks, times the sizes of the axes before tp") {
    CHECK(tp_span(parse_layout("tp=4,pp=2,dp=3")) == 4);
    CHECK(tp_span(parse_layout("pp=2,dp=3")) == 1);
    CHECK(tp_span(parse_layout("tp=4,cp=2,dp=3,order=cp-tp-ep-dp-pp")) == 8);
    CHECK(tp_span(parse_layout("tp=2,pp=3,dp=5,order=pp-dp-tp-cp-ep")) == 30);
    CHECK(tp_span(parse_layout("tp=4,ep=2,dp=4,order=ep-tp-cp-dp-pp")) == 4);
}
