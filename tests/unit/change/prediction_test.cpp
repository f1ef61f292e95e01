// SPDX-License-Identifier: Apache-2.0
#include "lib/change/prediction.hpp"

#include "tests/unit/change/random_parcels.hpp"

#include <doctest/doctest.h>

using namespace tpx;
using namespace tpx::testing;

TEST_CASE("a bound uses only known rates, an estimate all rates") {
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

TEST_CASE("each rank copies with its own core, and host memory does not count for state on devices") {
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

TEST_CASE("copies inside and between devices take time if their rates are known") {
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

TEST_CASE("an unchanged layout is read from shared storage, each byte once per host") {
    const Parcels parcels = grid(3, 4, 5);
    const std::vector<Host> hosts = uniform_hosts(15, 4);
    std::vector<RankLocation> rank_locations;
    for (std::int32_t rank = 0; rank < 60; ++rank) rank_locations.push_back({rank / 4, rank});
    const Placement placement = place(parcels, hosts, rank_locations, false);
    for (const Load& load : reading_loads(parcels, placement, hosts)) {
        CHECK(load.disk_read == 4 * (1000 + 700));
        CHECK(load.memory == 0);
    }
}

TEST_CASE("hosts with an unknown switch share it with no other host") {
    std::vector<Host> hosts = uniform_hosts(5, 1);
    hosts[1].switch_group = hosts[3].switch_group = "leaf";
    CHECK(switch_groups(hosts) == std::vector<std::uint32_t>{0, 1, 2, 1, 3});
}

TEST_CASE("a bound holds whatever the unknown rates are, and a time from known rates alone is a bound") {
    RandomInstances random{4};
    int lower = 0, mixed = 0;
    for (int round = 0; round < 3000; ++round) {
        Instance made = random({.bytes = 1000, .lost = false});
        const StateMedium state = random.chance(50) ? StateMedium::stores : StateMedium::memory;
        const RankMemory memory = state == StateMedium::stores ? RankMemory::host : RankMemory::device;
        for (Host& host : made.hosts) {  // all rates are known and equal to the assumed ones
            if (host.nic) host.nic = *host.nic * 1e10;
            if (host.disk_read) host.disk_read = *host.disk_read * 2e9;
            if (random.chance(50)) host.memory = random.number(1, 100) * 1e9;
        }
        const Placement placement = place(made.parcels, made.hosts, made.rank_locations, false);
        const auto prediction = [&] {
            return predict(made.hosts, relocate(made.parcels, made.hosts, made.rank_locations, placement, state, true),
                           memory);
        };
        CAPTURE(round);
        const Prediction found = prediction();
        CHECK(found.bound_seconds() <= found.seconds() * (1 + 1e-9));
        for (Host& host : made.hosts) {
            if (!host.nic) host.nic = random.number(1, 1000) * 1e9;
            if (!host.disk_read) host.disk_read = random.number(1, 1000) * 1e9;
            if (!host.disk_write) host.disk_write = 1e12;
            if (!host.memory) host.memory = 1e12;
        }
        const Prediction actual = prediction();
        const auto& binding = actual.resources[actual.binding];
        CHECK((actual.is_bound() || binding.resource == "memory"));  // copies of hosts depend on the choice of senders
        static constexpr double rounding = 2e-9;                     // a host may send a byte more than its share
        CHECK(found.bound_seconds() <= actual.seconds() + rounding);
        if (found.is_bound()) CHECK(found.seconds() <= actual.seconds() + rounding);
        mixed += found.bound_seconds() > 0;
        lower += found.bound_seconds() > 0 && !found.is_bound();
    }
    CHECK(mixed > 300);
    CHECK(lower > 300);
}

TEST_CASE("a host with an unknown disk rate could do all work through shared storage") {
    std::vector<Host> hosts = uniform_hosts(2, 4);
    hosts[0].disk_read = 1e9;
    CHECK(predict_storage(hosts, 12'000'000'000, 0).bound_seconds() == 0);
    CHECK(!predict_storage(hosts, 12'000'000'000, 0).is_bound());
    hosts[1].disk_read = 5e9;
    const Prediction known = predict_storage(hosts, 12'000'000'000, 0);
    CHECK(known.is_bound());
    CHECK(known.seconds() == doctest::Approx(2));
}
