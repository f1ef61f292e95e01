// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/fan_out.hpp"

#include "lib/plan/fan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

using namespace tpx;

namespace {

std::mt19937 engine{12};

std::uint32_t below(std::uint64_t n) { return static_cast<std::uint32_t>(engine() % n); }

// Any shares of `bytes` among `hosts`, in any order.
std::vector<Share> random_shares(std::vector<std::int32_t> hosts, std::uint64_t bytes) {
    std::shuffle(hosts.begin(), hosts.end(), engine);
    if (below(2) == 0) hosts.resize(1 + below(hosts.size()));
    std::vector<Share> shares;
    for (std::size_t i = 0; i < hosts.size() && bytes != 0; ++i) {
        const std::uint64_t part = i + 1 == hosts.size() ? bytes : below(bytes + 1);
        if (part != 0) shares.push_back({static_cast<std::uint32_t>(hosts[i]), part});
        bytes -= part;
    }
    return shares;
}

}  // namespace

TEST_CASE("whatever shares are chosen, each needer gets each byte once and from a holder in the end") {
    for (int i = 0; i < 3000; ++i) {
        CAPTURE(i);
        const std::uint32_t hosts = 2 + below(i % 50 == 0 ? 60 : 10);
        const std::uint32_t groups = 1 + below(4);
        std::vector<std::uint32_t> group_of(hosts);
        for (std::uint32_t& group : group_of) group = below(groups);
        std::vector<std::int32_t> holders{static_cast<std::int32_t>(below(hosts))};
        std::vector<std::int32_t> needers;
        for (std::int32_t host = 0; host < static_cast<std::int32_t>(hosts); ++host) {
            if (host == holders.front()) continue;
            const std::uint32_t what = below(i % 3 == 0 ? 3 : 8);
            if (what == 0) holders.push_back(host);
            if (what > 1) needers.push_back(host);
        }
        std::ranges::sort(holders);
        const std::uint64_t bytes = 1 + below(40);
        Fan fan = make_fan(bytes, holders, needers, group_of);

        std::map<std::uint32_t, std::uint64_t> sends;
        std::size_t shared = 0;
        for_each_demand(fan, [&](auto& from, auto& relays, std::uint64_t copies, std::vector<Share>& shares) {
            std::vector<std::int32_t> all = from;
            all.insert(all.end(), relays.begin(), relays.end());
            shares = random_shares(all, copies * bytes);
            shared += shares.size();
            for (const Share& share : shares) sends[share.host] += share.bytes;
        });
        const std::vector<Hop> hops = fan_out(fan);
        CHECK(hops.size() <= needers.size() + 2 * shared);
        std::map<std::uint32_t, std::uint64_t> sent;
        for (const Hop& hop : hops) {
            REQUIRE(hop.begin < hop.end);
            sent[hop.from] += hop.end - hop.begin;
        }
        CHECK(sent == sends);
        for (std::uint64_t byte = 0; byte < bytes; ++byte) {
            std::map<std::uint32_t, std::uint32_t> from;
            std::map<std::uint32_t, int> entries;
            for (const Hop& hop : hops) {
                if (byte < hop.begin || byte >= hop.end) continue;
                REQUIRE(from.emplace(hop.to, hop.from).second);
                entries[group_of[hop.to]] += group_of[hop.to] != group_of[hop.from];
            }
            REQUIRE(from.size() == needers.size());
            for (std::int32_t host : holders) entries[group_of[host]] += 1;
            for (std::int32_t host : needers) {
                auto at = static_cast<std::uint32_t>(host);
                REQUIRE(entries[group_of[at]] >= 1);
                for (std::size_t steps = 0; from.contains(at); at = from[at]) REQUIRE(steps++ <= from.size());
                REQUIRE(std::ranges::binary_search(holders, static_cast<std::int32_t>(at)));
            }
            for (const Fan::Group& group : fan.groups)
                REQUIRE(entries[group.number] == static_cast<int>(std::max<std::size_t>(1, group.holders.size())));
        }
    }
}
