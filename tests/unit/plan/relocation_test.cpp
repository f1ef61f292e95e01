// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/relocation.hpp"

#include "lib/core/error.hpp"
#include "tests/unit/plan/relocation_laws.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

using namespace tpx;
using namespace tpx::testing;

TEST_CASE("transfers cover what is missing, loads add up, and no choice of senders is done sooner") {
    RandomInstances random{7};
    for (int i = 0; i < 10'000; ++i) {
        CAPTURE(i);
        Extent extent;
        if (i % 10 == 0) extent = {5, 2, 8, 3, 5, true};
        const Instance instance = random(extent);
        const StateIn state = i % 3 == 0 ? StateIn::stores : StateIn::memory;
        const Case it{instance, state, i % 2 == 0};
        check_counts(it);
        check_transfers(it);
        check_rounds(it);
        check_sending(it);
    }
}

TEST_CASE("many hosts: transfers cover what is missing and loads add up") {
    RandomInstances random{17};
    for (int i = 0; i < 100; ++i) {
        CAPTURE(i);
        const Instance instance = random({30, 3, 60, i % 2 == 0 ? 8 : 40, i % 2 == 0 ? 50 : 7, true});
        const Case it{instance, i % 3 == 0 ? StateIn::stores : StateIn::memory, i % 2 == 0};
        check_counts(it);
        check_transfers(it);
        check_rounds(it);
        for (std::size_t h = 0; h < it.host_count(); ++h)
            CHECK(it.relocation.hosts[h].nic_out <=
                  static_cast<std::uint64_t>(it.relocation.sending.seconds * it.nic(h)) + 1);
    }
}

TEST_CASE("a layout that stays moves nothing, wherever its hosts are in the list") {
    const Parcels parcels = grid(3, 4, 5);
    const std::vector<Host> hosts = uniform_hosts(15, 4);
    std::vector<std::int32_t> order(hosts.size());
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 engine{5};
    for (int i = 0; i < 20; ++i) {
        std::vector<Seat> seats;
        for (std::int32_t rank = 0; rank < parcels.old_ranks; ++rank)
            seats.push_back({order[rank / 4], order[rank / 4] * 4 + (rank + i) % 4});
        const Placement placement = place(parcels, hosts, seats, false);
        const Relocation relocation = relocate(parcels, hosts, seats, placement, StateIn::memory, false);
        CHECK(relocation.total.kept == relocation.total.needed);
        CHECK(relocation.transfers.empty());
        CHECK(relocation.rounds == 0);
        CHECK(relocation.sending.hosts.empty());
        std::shuffle(order.begin(), order.end(), engine);
    }
}

namespace {

// One host holds 1000 bytes that all of `needers` further hosts need.
Instance broadcast(int needers) {
    Instance made;
    made.hosts = uniform_hosts(1 + needers, 1);
    made.seats = {{0, 0}};
    made.parcels.old_ranks = 1;
    made.parcels.new_ranks = 1 + needers;
    made.parcels.roles = {"weight"};
    made.parcels.tensors = {"w"};
    std::vector<std::int32_t> all(1 + needers);
    std::iota(all.begin(), all.end(), 0);
    made.parcels.parcels.push_back(
        {made.parcels.holders.add(std::vector<std::int32_t>{0}), made.parcels.needers.add(all), 0, 0, false, 1000});
    return made;
}

}  // namespace

TEST_CASE("what one host holds and many need goes from host to host, each byte into a switch group once") {
    Instance instance = broadcast(7);
    const Case chain{instance, StateIn::memory, true};
    for (const Load& load : chain.relocation.hosts) CHECK(load.nic_out <= 1000);
    CHECK(chain.relocation.sending.bytes == 1000);
    CHECK(chain.relocation.sending.hosts == std::vector<std::uint32_t>{0});
    check_transfers(chain);
    for (int h = 4; h < 8; ++h) instance.hosts[h].switch_group.push_back('b');
    const Case groups{instance, StateIn::memory, true};
    check_transfers(groups);
    std::uint64_t entering = 0;
    for (const Transfer& transfer : groups.relocation.transfers)
        entering += (transfer.from < 4) != (transfer.to < 4) ? transfer.end - transfer.begin : 0;
    CHECK(entering == 1000);
}

TEST_CASE("what no host holds any more is read from storage, or refused") {
    Instance instance = broadcast(2);
    instance.hosts[0].lost = true;
    instance.parcels.new_ranks = 2;
    instance.parcels.needers = {};
    instance.parcels.parcels[0].needers = instance.parcels.needers.add(std::vector<std::int32_t>{0, 1});
    const Placement placement = place(instance.parcels, instance.hosts, instance.seats, false);
    const Relocation read =
        relocate(instance.parcels, instance.hosts, instance.seats, placement, StateIn::memory, true);
    CHECK(read.total.storage == 2000);
    CHECK(read.hosts[1].disk_read == 1000);
    CHECK(read.bound == 2000);
    CHECK(read.meets_bound());
    CHECK_THROWS_WITH_AS(relocate(instance.parcels, instance.hosts, instance.seats, placement, StateIn::memory, false),
                         "tensor 'w': no host holds 1000 bytes of its weight (1000 bytes in all; lost: host0)", Error);
}
