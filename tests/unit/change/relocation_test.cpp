// SPDX-License-Identifier: Apache-2.0
#include "lib/change/relocation.hpp"

#include "lib/core/error.hpp"
#include "tests/unit/change/relocation_laws.hpp"
#include "tests/unit/change/sending_laws.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

using namespace tpx;
using namespace tpx::testing;

namespace {

// One host holds 1000 bytes that all of `needers` further hosts need.
Instance broadcast(int needers) {
    Instance made;
    made.hosts = uniform_hosts(1 + needers, 1);
    made.rank_locations = {{0, 0}};
    made.parcels.old_ranks = 1;
    made.parcels.new_ranks = 1 + needers;
    made.parcels.roles = {Role::weight};
    made.parcels.tensors = {"w"};
    std::vector<std::int32_t> all(1 + needers);
    std::iota(all.begin(), all.end(), 0);
    made.parcels.parcels.push_back(
        {made.parcels.holders.add(std::vector<std::int32_t>{0}), made.parcels.needers.add(all), 0, 0, false, 1000});
    return made;
}

}  // namespace

TEST_CASE("transfers cover all missing bytes, loads add up, and no choice of senders finishes sooner") {
    RandomInstances random{7};
    for (int i = 0; i < 10'000; ++i) {
        CAPTURE(i);
        Extent extent;
        if (i % 10 == 0) extent = {5, 2, 8, 3, 5, true};
        const Instance instance = random(extent);
        const StateMedium state = i % 3 == 0 ? StateMedium::stores : StateMedium::memory;
        const RelocationCase it{instance, state, i % 2 == 0};
        check_counts(it);
        check_transfers(it);
        check_ranks(it);
        check_rounds(it);
        check_order(it);
        check_sending(it);
    }
}

TEST_CASE("no host forwards bytes before it has them, splits elements, or buffers more than the window") {
    RandomInstances random{23};
    int forwards = 0, full = 0;
    for (int i = 0; i < 10'000; ++i) {
        CAPTURE(i);
        Instance instance = random({6, 2, 12, 8, 60, true});
        for (Parcel& parcel : instance.parcels.parcels) {
            parcel.element = 1u << random.number(0, 3);
            parcel.bytes *= parcel.element;
        }
        const std::uint64_t window = i % 2 == 0 ? static_cast<std::uint64_t>(random.number(64, 128)) : default_window;
        const RelocationCase it{instance, i % 3 == 0 ? StateMedium::stores : StateMedium::memory, i % 2 == 0, window};
        check_transfers(it);
        check_ranks(it);
        check_rounds(it);
        check_order(it);
        for (const Transfer& transfer : it.relocation.transfers) forwards += transfer.forwards;
        for (std::uint64_t bytes : it.relocation.staging) full += bytes > window / 2;
    }
    CHECK(forwards > 10'000);
    CHECK(full > 150);
}

TEST_CASE("chains of hosts finish within 4/3 of the bound") {
    for (int needers : {2, 7, 60, 250}) {
        CAPTURE(needers);
        Instance instance = broadcast(needers);
        instance.parcels.parcels[0].bytes = 1'000'000'000;
        for (Host& host : instance.hosts) host.nic = 1e9;
        const RelocationCase it{instance, StateMedium::memory, true};
        CHECK(it.relocation.sending.seconds == doctest::Approx(1));
        CHECK(it.relocation.seconds_with_barriers >= 1);
        CHECK(it.relocation.seconds_with_barriers < 1.34);
    }
}

TEST_CASE("a window that has no room for a few elements is refused") {
    Instance instance = RandomInstances{1}({});
    CHECK_THROWS_AS((RelocationCase{instance, StateMedium::memory, true, 7}), Error);
}

TEST_CASE("many hosts: transfers cover all missing bytes and loads add up") {
    RandomInstances random{17};
    for (int i = 0; i < 100; ++i) {
        CAPTURE(i);
        const Instance instance = random({30, 3, 60, i % 2 == 0 ? 8 : 40, i % 2 == 0 ? 50 : 7, true});
        const RelocationCase it{instance, i % 3 == 0 ? StateMedium::stores : StateMedium::memory, i % 2 == 0};
        check_counts(it);
        check_transfers(it);
        check_ranks(it);
        check_rounds(it);
        check_order(it);
        for (std::size_t h = 0; h < it.host_count(); ++h)
            CHECK(it.relocation.hosts[h].nic_out <=
                  static_cast<std::uint64_t>(it.relocation.sending.seconds * it.nic(h)) + 1);
    }
}

TEST_CASE("all devices of a host send and receive") {
    Instance made;
    made.hosts = uniform_hosts(2, 4);
    made.rank_locations = {{0, 0}, {0, 1}, {0, 2}, {0, 3}};
    made.parcels.old_ranks = 4;
    made.parcels.new_ranks = 8;
    made.parcels.roles = {Role::weight};
    made.parcels.tensors = {"w"};
    const std::uint32_t holders = made.parcels.holders.add(std::vector<std::int32_t>{0, 1, 2, 3});
    for (std::int32_t rank = 0; rank < 4; ++rank) {
        const std::uint32_t needers = made.parcels.needers.add(std::vector<std::int32_t>{rank, rank + 4});
        made.parcels.parcels.push_back({holders, needers, 0, 0, false, 1000});
    }
    const RelocationCase it{made, StateMedium::memory, true};
    std::map<std::int32_t, std::uint64_t> sent, received;
    for (const Transfer& transfer : it.relocation.transfers) {
        sent[transfer.from_rank] += transfer.end - transfer.begin;
        received[transfer.to_rank] += transfer.end - transfer.begin;
    }
    CHECK(sent.size() == 4);
    for (const auto& [rank, bytes] : sent) CHECK(bytes <= 1100);
    CHECK(received == std::map<std::int32_t, std::uint64_t>{{4, 1000}, {5, 1000}, {6, 1000}, {7, 1000}});
}

TEST_CASE("an unchanged layout moves nothing, whatever the order of its hosts") {
    const Parcels parcels = grid(3, 4, 5);
    const std::vector<Host> hosts = uniform_hosts(15, 4);
    std::vector<std::int32_t> order(hosts.size());
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 engine{5};
    for (int i = 0; i < 20; ++i) {
        std::vector<RankLocation> rank_locations;
        for (std::int32_t rank = 0; rank < parcels.old_ranks; ++rank)
            rank_locations.push_back({order[rank / 4], order[rank / 4] * 4 + (rank + i) % 4});
        const Placement placement = place(parcels, hosts, rank_locations, false);
        const Relocation relocation = relocate(parcels, hosts, rank_locations, placement, StateMedium::memory, false);
        CHECK(relocation.total.kept == relocation.total.needed);
        CHECK(relocation.transfers.empty());
        CHECK(relocation.rounds == 0);
        CHECK(relocation.sending.hosts.empty());
        std::shuffle(order.begin(), order.end(), engine);
    }
}

TEST_CASE("bytes that one host holds and many need go from host to host, into each switch group once") {
    Instance instance = broadcast(7);
    const RelocationCase chain{instance, StateMedium::memory, true};
    for (const Load& load : chain.relocation.hosts) CHECK(load.nic_out <= 1000);
    CHECK(chain.relocation.sending.bytes == 1000);
    CHECK(chain.relocation.sending.hosts == std::vector<std::uint32_t>{0});
    check_transfers(chain);
    for (int h = 4; h < 8; ++h) instance.hosts[h].switch_group.push_back('b');
    const RelocationCase groups{instance, StateMedium::memory, true};
    check_transfers(groups);
    std::uint64_t entering = 0;
    for (const Transfer& transfer : groups.relocation.transfers)
        entering += (transfer.from < 4) != (transfer.to < 4) ? transfer.end - transfer.begin : 0;
    CHECK(entering == 1000);
}

TEST_CASE("a fast host sends bytes that a slow one also holds, if their switches are unknown") {
    Instance instance = broadcast(2);
    instance.rank_locations = {{0, 0}, {1, 1}};
    instance.parcels.old_ranks = 2;
    instance.parcels.new_ranks = 3;
    instance.parcels.holders = {};
    instance.parcels.needers = {};
    instance.parcels.parcels[0].holders = instance.parcels.holders.add(std::vector<std::int32_t>{0, 1});
    instance.parcels.parcels[0].needers = instance.parcels.needers.add(std::vector<std::int32_t>{2});
    instance.hosts[0].nic = 1;
    instance.hosts[1].nic = 9;
    instance.hosts[1].switch_group = "leaf";  // host 0 and the receiver may be on any switch
    const RelocationCase it{instance, StateMedium::memory, true};
    CHECK(it.relocation.hosts[0].nic_out == 100);
    CHECK(it.relocation.hosts[1].nic_out == 900);
}

TEST_CASE("a host reads bytes from its store once, even if it needs and sends them or sends them to several") {
    Instance instance = broadcast(3);  // host 0 needs the bytes too
    const RelocationCase both{instance, StateMedium::stores, true};
    CHECK(both.relocation.hosts[0].disk_read == 1000);
    instance.parcels.needers = {};
    instance.parcels.parcels[0].needers = instance.parcels.needers.add(std::vector<std::int32_t>{1, 2, 3});
    const RelocationCase others{instance, StateMedium::stores, true};
    CHECK(others.relocation.hosts[0].disk_read == 1000);
    CHECK(others.relocation.hosts[0].nic_out == 1000);
}

TEST_CASE("bytes that no host holds are read from storage, or refused") {
    Instance instance = broadcast(2);
    instance.hosts[0].lost = true;
    instance.parcels.new_ranks = 2;
    instance.parcels.needers = {};
    instance.parcels.parcels[0].needers = instance.parcels.needers.add(std::vector<std::int32_t>{0, 1});
    const Placement placement = place(instance.parcels, instance.hosts, instance.rank_locations, false);
    const Relocation read =
        relocate(instance.parcels, instance.hosts, instance.rank_locations, placement, StateMedium::memory, true);
    CHECK(read.total.storage == 2000);
    CHECK(read.hosts[1].disk_read == 1000);
    CHECK(read.bound == 2000);
    CHECK(read.meets_bound());
    CHECK_THROWS_WITH_AS(
        relocate(instance.parcels, instance.hosts, instance.rank_locations, placement, StateMedium::memory, false),
        "tensor 'w': no host holds 1.00 kB of its weight (1.00 kB in all; lost: host0)", Error);
}
