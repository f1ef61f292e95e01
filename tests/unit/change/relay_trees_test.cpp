// SPDX-License-Identifier: Apache-2.0
#include "lib/change/relay_trees.hpp"

#include "lib/change/multicast.hpp"

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
std::vector<SenderShare> random_shares(std::vector<std::int32_t> hosts, std::uint64_t bytes) {
    std::shuffle(hosts.begin(), hosts.end(), engine);
    if (below(2) == 0) hosts.resize(1 + below(hosts.size()));
    std::vector<SenderShare> shares;
    for (std::size_t i = 0; i < hosts.size() && bytes != 0; ++i) {
        const std::uint64_t part = i + 1 == hosts.size() ? bytes : below(bytes + 1);
        if (part != 0) shares.push_back({static_cast<std::uint32_t>(hosts[i]), part});
        bytes -= part;
    }
    return shares;
}

}  // namespace

TEST_CASE("whatever shares are chosen, each needer gets each byte once, originally from a holder") {
    for (int i = 0; i < 3000; ++i) {
        CAPTURE(i);
        const std::uint32_t hosts = 2 + below(i % 50 == 0 ? 60 : 10);
        const std::uint32_t groups = 1 + below(4);
        std::vector<std::uint32_t> group_of(hosts);
        for (std::uint32_t& group : group_of) group = below(groups);
        const auto first = static_cast<std::int32_t>(below(hosts));
        std::vector<std::int32_t> holders{first};
        std::vector<std::int32_t> readers;  // may be the only hosts with the bytes
        std::vector<std::int32_t> needers;
        if (below(3) == 0) std::swap(holders, readers);
        for (std::int32_t host = 0; host < static_cast<std::int32_t>(hosts); ++host) {
            if (host == first) continue;
            const std::uint32_t what = below(i % 3 == 0 ? 3 : 8);
            if (what == 0) (below(3) == 0 ? readers : holders).push_back(host);
            if (what > 1) needers.push_back(host);
        }
        std::ranges::sort(holders);
        std::ranges::sort(readers);
        const std::uint64_t bytes = 1 + below(40);
        Multicast multicast = make_multicast(bytes, holders, readers, needers, group_of);

        std::map<std::uint32_t, std::uint64_t> sends;
        std::size_t shared = 0;
        for_each_demand(multicast, [&](const Senders& senders, std::uint64_t copies, std::vector<SenderShare>& shares) {
            std::vector<std::int32_t> all = senders.holders;
            for (const auto* more : {&senders.readers, &senders.relays})
                all.insert(all.end(), more->begin(), more->end());
            REQUIRE(!all.empty());
            shares = random_shares(all, copies * bytes);
            shared += shares.size();
            for (const SenderShare& share : shares) sends[share.host] += share.bytes;
        });
        const std::vector<RelayTree> trees = relay_trees(multicast);
        CHECK(trees.size() <= 1 + shared);
        std::map<std::uint32_t, std::uint64_t> sent;
        std::uint64_t end = 0;
        for (const RelayTree& tree : trees) {
            REQUIRE(tree.begin == end);
            REQUIRE(tree.begin < tree.end);
            end = tree.end;
            std::map<std::uint32_t, std::uint32_t> depth;  // depth of the hosts that have the bytes
            std::map<std::uint32_t, int> entries;
            std::vector<std::int32_t> roots = holders;
            roots.insert(roots.end(), readers.begin(), readers.end());
            std::map<std::uint32_t, int> sends_here;
            for (std::int32_t host : roots) {
                depth[static_cast<std::uint32_t>(host)] = 0;
                entries[group_of[host]] += 1;
            }
            for (const Hop& hop : tree.hops) {
                REQUIRE(depth.contains(hop.from));
                REQUIRE(hop.depth == depth[hop.from]);
                REQUIRE(depth.emplace(hop.to, hop.depth + 1).second);
                ++sends_here[hop.from];
                sent[hop.from] += tree.end - tree.begin;
                entries[group_of[hop.to]] += group_of[hop.to] != group_of[hop.from];
            }
            for (std::int32_t host : needers) REQUIRE(depth.contains(static_cast<std::uint32_t>(host)));
            REQUIRE(depth.size() == roots.size() + needers.size());
            for (std::int32_t host : readers) REQUIRE(sends_here[static_cast<std::uint32_t>(host)] <= 1);
            for (const Multicast::HostGroup& group : multicast.groups)
                REQUIRE(entries[group.number] ==
                        static_cast<int>(std::max<std::size_t>(1, group.holders.size() + group.readers.size())));
        }
        REQUIRE(end == bytes);
        CHECK(sent == sends);
    }
}
