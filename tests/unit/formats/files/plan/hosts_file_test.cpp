// SPDX-License-Identifier: Apache-2.0
#include "formats/files/plan/hosts_file.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>

using namespace tpx;
using formats::parse_hosts;
using formats::read_hosts;

TEST_CASE("hosts as TOML, rates as text or bytes per second") {
    const auto hosts = parse_hosts(R"(
# two machines
[[hosts]]
name = "n0"
gpus = 8
nic = "200 Gbit/s"
disk_read = 7e9
disk_write = 3000000000

[[hosts]]
name = "n1"
)",
                                   "hosts.toml");
    REQUIRE(hosts.size() == 2);
    CHECK(hosts[0].name == "n0");
    CHECK(hosts[0].gpus == 8);
    CHECK(hosts[0].nic == 25e9);
    CHECK(hosts[0].disk_read == 7e9);
    CHECK(hosts[0].disk_write == 3e9);
    CHECK_FALSE(hosts[0].memory);
    CHECK(hosts[1].name == "n1");
    CHECK(hosts[1].gpus == 1);
    CHECK_FALSE(hosts[1].nic);
}

TEST_CASE("hosts as mpirun's hostfile") {
    const auto hosts = parse_hosts("# cluster\nn0 slots=8\n\n  n1:4  # old\r\nn2 slots=2 max_slots=4\nn3", "hostfile");
    REQUIRE(hosts.size() == 4);
    CHECK(hosts[0].gpus == 8);
    CHECK(hosts[1].name == "n1");
    CHECK(hosts[1].gpus == 4);
    CHECK(hosts[2].gpus == 2);
    CHECK(hosts[3].name == "n3");
    CHECK(hosts[3].gpus == 1);
}

TEST_CASE("hosts as count times GPUs") {
    for (const char* text : {"4x8", "4X8", "4×8"}) {
        const auto hosts = read_hosts(text);
        REQUIRE(hosts.size() == 4);
        CHECK(hosts[3].name == "host3");
        CHECK(hosts[3].gpus == 8);
    }
    CHECK_THROWS_WITH_AS(read_hosts("no such file"), "no such file: No such file or directory", Error);
}

TEST_CASE("errors name the file, the line and the cause") {
    const auto says = [](const char* text, const char* file, const char* message) {
        CHECK_THROWS_WITH_AS(parse_hosts(text, file), message, Error);
    };
    says("[[hosts]]\nname = \"a\"\nnic = \"fast\"", "h.toml",
         "h.toml:3: nic: 'fast' is not a rate such as 25GB/s or 200Gbit/s");
    says("[[hosts]]\nname = \"a\"\nnic = nan", "h.toml",
         "h.toml:3: nic: a rate is a positive number of bytes per second, or text such as \"25 GB/s\"");
    says("[[hosts]]\nname = \"a\"\ndisk_read = -1", "h.toml",
         "h.toml:3: disk_read: a rate is a positive number of bytes per second, or text such as \"25 GB/s\"");
    says("[[hosts]]\nname = \"a\"\ngpus = 0", "h.toml", "h.toml:3: gpus: a whole number from 1 to 4096 was expected");
    says("[[hosts]]\ngpus = 8", "h.toml", "h.toml:1: a host needs a name");
    says("[[hosts]]\nname = \"a\"\nspeed = 1", "h.toml",
         "h.toml:3: unknown key 'speed'; name, gpus, nic, rails, switch, disk_read, disk_write, memory, device_copy, "
         "device_link, device_memory, device_type, iteration, lost, lost_devices and spare are known");
    says("[[hosts]]\nname = \"a\"\n[[hosts]]\nname = \"a\"", "h.toml", "h.toml:3: host 'a' is already named on line 1");
    says("[[hosts]]\nname = \"a\"\ngpus = 8\nlost_devices = 3", "h.toml",
         "h.toml:4: lost_devices: a list of devices such as [0, 5] was expected");
    says("[[hosts]]\nname = \"a\"\ngpus = 8\nlost_devices = [-1]", "h.toml",
         "h.toml:4: lost_devices: a list of devices such as [0, 5] was expected");
    says("[[hosts]]\nname = \"a\"\nlost_devices = [8]\ngpus = 8", "h.toml",
         "h.toml:1: lost_devices: host 'a' has no device 8, its devices are 0 to 7");
    says("[[nodes]]\nname = \"a\"", "h.toml", "h.toml:1: 'nodes': only [[hosts]] tables are known");
    says("hosts = 3", "h.toml", "h.toml:1: 'hosts': only [[hosts]] tables are known");
    says("", "h.toml", "h.toml: contains no hosts");
    says("# nobody\n", "hostfile", "hostfile: contains no hosts");
    says("a slots=8\nb slots=many", "hostfile",
         "hostfile:2: 'slots=many' is not a number of slots such as slots=8 (1 to 4096)");
    says("a 8", "hostfile", "hostfile:1: '8' is not a number of slots such as slots=8 (1 to 4096)");
    says("a:0", "hostfile", "hostfile:1: '0' is not a number of slots such as slots=8 (1 to 4096)");
    says(":8", "hostfile", "hostfile:1: a host needs a name");
    says("a\nb\na", "hostfile", "hostfile:3: host 'a' is already named on line 1");
    says("a\nn[0-1]", "hostfile", "hostfile:2: 'n[0-1]' is not a valid host name: it contains brackets or commas");
    says("[[hosts]]\nname = \"a]\"", "h.toml",
         "h.toml:1: 'a]' is not a valid host name: it contains brackets or commas");
    CHECK_THROWS_AS(parse_hosts("[[hosts]\nname", "h.toml"), Error);
}

TEST_CASE("one table may name many hosts") {
    const auto hosts = parse_hosts(
        "[[hosts]]\nname = \"n[08-10]\"\ngpus = 8\nrails = 4\nswitch = \"leaf1\"\ndevice_memory = \"80GB\"\n"
        "[[hosts]]\nname = \"s0\"\nspare = true\n[[hosts]]\nname = \"l0\"\nlost = true\nlost_devices = [0, 0]\n",
        "h.toml");
    REQUIRE(hosts.size() == 5);
    CHECK(hosts[0].name == "n08");
    CHECK(hosts[2].name == "n10");
    CHECK(hosts[2].rails == 4);
    CHECK(hosts[2].switch_group == "leaf1");
    CHECK(hosts[2].device_memory == 80e9);
    CHECK(hosts[3].spare);
    CHECK(hosts[4].lost);
    CHECK(hosts[4].lost_devices == std::vector{0});
    CHECK_THROWS_AS(parse_hosts("[[hosts]]\nname = \"n[0-1]\"\n[[hosts]]\nname = \"n1\"\n", "h.toml"), Error);
}
