// SPDX-License-Identifier: Apache-2.0
#include "lib/change/cost.hpp"

#include "tests/unit/change/random_parcels.hpp"

#include <doctest/doctest.h>

using namespace tpx;
using namespace tpx::testing;

TEST_CASE("a bound uses known rates only, an estimate all") {
    std::vector<Host> hosts = uniform_hosts(2, 4);
    const std::vector<Load> loads{{.nic_out = 100'000'000'000}, {.nic_out = 1'000'000'000}};
    Prediction found = predict(hosts, loads);
    CHECK(found.seconds() == doctest::Approx(4));
    CHECK(!found.is_bound());
    CHECK(found.bound_seconds() == 0);
    hosts[1].nic = 0.5e9;
    found = predict(hosts, loads);
    CHECK(found.seconds() == doctest::Approx(4));
    CHECK(!found.is_bound());
    CHECK(found.bound_seconds() == doctest::Approx(2));
    CHECK(found.bounds[found.binding_bound].host == 1);
    hosts[0].nic = 10e9;
    found = predict(hosts, loads);
    CHECK(found.is_bound());
    CHECK(found.seconds() == doctest::Approx(10));
    CHECK(found.bound_seconds() == doctest::Approx(10));
}

TEST_CASE("each rank copies with a core of its own, and the memory of hosts decides nothing for state in devices") {
    std::vector<Host> hosts = uniform_hosts(1, 8);
    hosts[0].memory = 10e9;
    hosts[0].nic = 1e9;
    const std::vector<Load> loads{{.nic_in = 1'000'000'000, .memory = 160'000'000'000}};
    CHECK(predict(hosts, loads).seconds() == doctest::Approx(2));
    const Prediction devices = predict(hosts, loads, RankMemory::device);
    CHECK(devices.seconds() == doctest::Approx(1));
    CHECK(devices.resources[devices.binding].resource == "NIC in");
    CHECK(devices.resources[4].seconds == doctest::Approx(2));
}

TEST_CASE("what devices copy and send to each other takes time where their rates are known") {
    std::vector<Host> hosts = uniform_hosts(2, 4);
    const std::vector<Load> loads{{.device_copy = 12'000'000'000, .device_link = 8'000'000'000}, {.nic_in = 1'000'000}};
    const Prediction unknown = predict(hosts, loads, RankMemory::device);
    CHECK(unknown.resources[unknown.binding].resource == "NIC in");
    hosts[0].device_copy = 1e12;
    hosts[0].device_link = 1e11;
    const Prediction known = predict(hosts, loads, RankMemory::device);
    CHECK(known.is_bound());
    CHECK(known.seconds() == doctest::Approx(0.02));  // four devices receive 2 GB each
    CHECK(known.resources[known.binding].resource == "device link");
    CHECK(known.resources[5].seconds == doctest::Approx(0.012));
    CHECK(predict(hosts, loads).resources[unknown.binding].resource == "NIC in");
}

TEST_CASE("a layout that stays is read from shared storage, each byte once a host") {
    const Parcels parcels = grid(3, 4, 5);
    const std::vector<Host> hosts = uniform_hosts(15, 4);
    std::vector<Seat> seats;
    for (std::int32_t rank = 0; rank < 60; ++rank) seats.push_back({rank / 4, rank});
    const Placement placement = place(parcels, hosts, seats, false);
    for (const Load& load : reading_loads(parcels, placement, hosts)) {
        CHECK(load.disk_read == 4 * (1000 + 700));
        CHECK(load.memory == 0);
    }
}

TEST_CASE("hosts whose switch is not known share it with nobody") {
    std::vector<Host> hosts = uniform_hosts(5, 1);
    hosts[1].switch_group = hosts[3].switch_group = "leaf";
    CHECK(switch_groups(hosts) == std::vector<std::uint32_t>{0, 1, 2, 1, 3});
}
