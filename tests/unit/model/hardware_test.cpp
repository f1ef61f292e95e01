// SPDX-License-Identifier: Apache-2.0
#include "lib/model/hardware.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace tpx;

namespace {

// Four hosts of 1 Gbit/s, of which the third has `slow` of it; the first two share a switch.
Hardware cluster(double slow = 0.2) {
    Hardware hardware;
    for (int i = 0; i < 4; ++i) {
        HostHardware& host = hardware.hosts.emplace_back();
        host.name = fmt::format("n{}", i);
        host.ranks = 2;
        host.switch_group = i < 2 ? "leaf1" : "";
        host.memory = {1e10 * (1 + 0.01 * i), 0.02};
        host.disk_read = {2e9, 0.01};
        host.disk_write = {1e9, 0.01};
        host.same_host = {{8e9, 0.01}, {1e-6, 0.1}};
    }
    hardware.links.assign(4, std::vector<LinkHardware>(4));
    for (int a = 0; a < 4; ++a)
        for (int b = 0; b < 4; ++b)
            if (a != b) hardware.links[a][b] = {{a == 2 || b == 2 ? slow * 119e6 : 119e6, 0.01}, {2e-5, 0.1}};
    find_nics(hardware);
    return hardware;
}

void add_gpus(HostHardware& host) {
    for (int i = 0; i < 2; ++i) {
        GpuHardware& gpu = host.gpus.emplace_back();
        gpu.to_device = gpu.from_device = {5e10, 0.01};
        gpu.copy = {2e12, 0.01};
        gpu.peers.assign(2, MeasuredValue{4e11, 0.01});
        gpu.peers[i] = {};
    }
}

}  // namespace

TEST_CASE("the slow host among others is found by its links") {
    const Hardware hardware = cluster();
    CHECK(hardware.hosts[0].nic.median == doctest::Approx(119e6));
    CHECK(hardware.hosts[2].nic.median == doctest::Approx(0.2 * 119e6));
    CHECK(slow_links(hardware).empty());  // they are as slow as the host is
    CHECK(has_uneven_links(hardware));
    CHECK_FALSE(has_uneven_links(cluster(1)));
}

TEST_CASE("a link that is slower than both of its ends is named") {
    Hardware hardware = cluster(1);
    hardware.links[1][3].rate.median *= 0.5;
    const std::vector<SlowLink> slow = slow_links(hardware);
    REQUIRE(slow.size() == 1);
    CHECK(slow[0].from == 1);
    CHECK(slow[0].to == 3);
    hardware.links[1][3].rate.spread = 0.6;  // nobody knows
    CHECK(slow_links(hardware).empty());
    hardware.links[1][3] = {};  // not measured
    CHECK(slow_links(hardware).empty());
}

TEST_CASE("pairs are of a class, and only those that were measured") {
    const std::vector<PairSummary> classes = pair_classes(cluster());
    REQUIRE(classes.size() == 3);
    CHECK(classes[0].kind == PairClass::same_host);
    CHECK(classes[0].pairs == 4);
    CHECK(classes[1].kind == PairClass::same_switch);
    CHECK(classes[1].pairs == 2);
    CHECK(classes[2].kind == PairClass::other);
    CHECK(classes[2].pairs == 10);
    CHECK(classes[2].slowest == doctest::Approx(0.2 * 119e6));
}

TEST_CASE("hosts that are alike share a class and its medians") {
    const Hardware hardware = cluster();
    const std::vector<int> classes = classes_of(hardware);
    CHECK(classes == std::vector<int>{0, 0, 1, 0});
    const std::vector<Host> hosts = hosts_for_planning(hardware, classes);
    CHECK(hosts[0].memory == hosts[3].memory);
    CHECK(hosts[0].memory == doctest::Approx(1.01e10));
    CHECK(hosts[0].switch_group == "leaf1");
    CHECK(hosts[2].gpus == 2);
    Hardware shared = hardware;
    for (HostHardware& host : shared.hosts) host.shared_read = {5e8, 0.1};
    CHECK(hosts_for_planning(shared, classes)[3].disk_read == 5e8);
    CHECK(hosts_for_planning(shared, classes)[3].disk_write == 1e9);
    Hardware wide = hardware;
    wide.hosts[1].disk_write = {0.8e9, 0.2};  // within the spreads
    CHECK(classes_of(wide)[1] == 0);
    wide.hosts[1].disk_write = {0.7e9, 0.9};  // they are no excuse for more than 25 %
    CHECK(classes_of(wide)[1] != 0);
}

TEST_CASE("what is slower than it was is named, and what is only noisy is not") {
    const Hardware before = cluster(1);
    CHECK(degraded(before, cluster(1)).empty());
    Hardware now = cluster(1);
    now.hosts[1].disk_write = {0.6e9, 0.01};
    now.links[0][3].rate.median = 40e6;
    const std::vector<DegradedRate> found = degraded(before, now);
    REQUIRE(found.size() == 2);
    CHECK(found[0].what == "n1: disk write");
    CHECK(found[1].what == "n0 to n3");
    CHECK(found[1].before == doctest::Approx(119e6));
    now.hosts[1].disk_write.spread = 0.45;
    now.links[0][3].rate.median = 119e6;
    CHECK(degraded(before, now).empty());
    CHECK(noisy(now) == std::vector<std::string>{"n1: disk write: samples spread by 45 %"});
    now.hosts[1].disk_write = {0.2e9, 3};  // no noise explains less than a quarter
    CHECK(degraded(before, now).size() == 1);
    now.hosts[1].disk_write = {3e9, 0};  // faster is no fault
    now.hosts[1].disk_read = {};         // nor is what was not measured
    CHECK(degraded(before, now).empty());
}

TEST_CASE("GPUs and what is between them are compared, too") {
    Hardware before = cluster(1), now = cluster(1);
    for (Hardware* each : {&before, &now}) {
        add_gpus(each->hosts[2]);
        each->nccl = {.gpus = 8, .between = {}, .all_reduce = {1e11, 0.01}};
    }
    CHECK(degraded(before, now).empty());
    now.hosts[2].gpus[1].to_device.median = 2.5e10;
    now.hosts[2].gpus[0].peers[1].median = 2e11;
    now.nccl.all_reduce.median = 5e10;
    const std::vector<DegradedRate> found = degraded(before, now);
    REQUIRE(found.size() == 3);
    CHECK(found[0].what == "n2: GPU 0 to GPU 1");
    CHECK(found[1].what == "n2: GPU 1: host to GPU");
    CHECK(found[2].what == "NCCL: all-reduce");
}
