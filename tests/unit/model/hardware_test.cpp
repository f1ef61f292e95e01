// SPDX-License-Identifier: Apache-2.0
#include "lib/model/hardware.hpp"

#include "formats/plan/hosts_file.hpp"
#include "formats/profile/hardware_file.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace tpx;

namespace {

// Four hosts of 1 Gbit/s, of which the third has `slow` of it.
Hardware cluster(double slow = 0.2) {
    Hardware hardware;
    for (int i = 0; i < 4; ++i) {
        HostHardware host;
        host.name = fmt::format("n{}", i);
        host.gpus = 2;
        host.memory = {1e10 * (1 + 0.01 * i), 0.02};
        host.disk_read = {2e9, 0.01};
        host.disk_write = {1e9, 0.01};
        hardware.hosts.push_back(host);
    }
    hardware.links.assign(4, std::vector<MeasuredRate>(4));
    hardware.latency.assign(4, std::vector<double>(4));
    for (int a = 0; a < 4; ++a)
        for (int b = 0; b < 4; ++b)
            if (a != b) hardware.links[a][b] = {a == 2 || b == 2 ? slow * 119e6 : 119e6, 0.01};
    find_nics(hardware);
    return hardware;
}

}  // namespace

TEST_CASE("the slow host among others is found by its links") {
    const Hardware hardware = cluster();
    CHECK(hardware.hosts[0].nic.rate == doctest::Approx(119e6));
    CHECK(hardware.hosts[2].nic.rate == doctest::Approx(0.2 * 119e6));
    CHECK(slow_links(hardware).empty());  // they are as slow as the host is
}

TEST_CASE("a link that is slower than both of its ends is named") {
    Hardware hardware = cluster(1);
    hardware.links[1][3].rate *= 0.5;
    const std::vector<SlowLink> slow = slow_links(hardware);
    REQUIRE(slow.size() == 1);
    CHECK(slow[0].from == 1);
    CHECK(slow[0].to == 3);
}

TEST_CASE("hosts that are alike share a class and its medians") {
    Hardware hardware = cluster();
    CHECK(merge_classes(hardware) == std::vector<int>{0, 0, 1, 0});
    CHECK(hardware.hosts[0].memory.rate == hardware.hosts[3].memory.rate);
    CHECK(hardware.hosts[0].memory.rate == doctest::Approx(1.01e10));
}

TEST_CASE("what is slower than it was is named, and what is only noisy is not") {
    const std::vector<Host> before = formats::parse_hosts(formats::hardware_text(cluster(1)), "old.toml");
    REQUIRE(before.size() == 4);
    CHECK(before[0].nic == doctest::Approx(119e6));
    CHECK(before[1].gpus == 2);
    CHECK(degraded(before, cluster(1)).empty());
    const std::vector<Degraded> found = degraded(before, cluster(0.2));
    REQUIRE(found.size() == 1);
    CHECK(found[0].host == "n2");
    CHECK(found[0].what == "NIC");
    Hardware noise = cluster(1);
    noise.hosts[1].disk_write = {0.7e9, 0.15};
    CHECK(degraded(before, noise).empty());
    noise.hosts[1].disk_write.spread = 0.02;
    CHECK(degraded(before, noise).size() == 1);
    noise.hosts[1].disk_write.spread = 0.3;
    CHECK(noisy(noise).size() == 1);
}
