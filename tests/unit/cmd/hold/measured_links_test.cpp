// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/measured_links.hpp"

#include "formats/files/profile/hardware_file.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace tpx;
using namespace tpx::cli;

namespace {

/// Two hosts with three GPUs each; between those of host a, 100 GB/s except from GPU 0.
Hardware three_gpus_each(double to_gpu_1, double to_gpu_2) {
    Hardware hardware;
    for (const char* name : {"a", "b"}) {
        HostHardware host{.name = name};
        host.nic = {name[0] == 'a' ? 4e9 : 1e9, 0};
        for (int gpu = 0; gpu < 3; ++gpu) {
            GpuHardware one{.name = "GPU", .bus = "0000:0" + std::to_string(gpu) + ":00.0"};
            one.peers.resize(3);
            host.gpus.push_back(one);
        }
        hardware.hosts.push_back(host);
    }
    const MeasuredValue usual{100e9, 0};
    hardware.hosts[0].gpus[0].peers = {{}, {to_gpu_1, 0}, {to_gpu_2, 0}};
    hardware.hosts[0].gpus[1].peers = {usual, {}, usual};
    hardware.hosts[0].gpus[2].peers = {usual, usual, {}};
    hardware.links = {{{}, {{2e9, 0}, {}}}, {{{1e9, 0}, {}}, {}}};
    return hardware;
}

GpuLinks alike(std::size_t gpus) {
    return GpuLinks(gpus, std::vector<MemoryLink>(gpus, MemoryLink{LinkClass::nvlink, 1}));
}

}  // namespace

TEST_CASE("links between GPUs are ordered by their rates, and rates that are about equal do not differ") {
    const std::vector<GpuInfo> gpu_infos{
        {"GPU", "0000:02:00.0", 0, 0}, {"GPU", "0000:00:00.0", 0, 0}, {"GPU", "0000:01:00.0", 0, 0}};
    GpuLinks links = alike(3);
    rank_by_rate(links, gpu_infos, three_gpus_each(100e9, 50e9), "a");
    CHECK(links[1][2].rank == 0);  // matched by address: GPU 0 of the file is GPU 1 of this host
    CHECK(links[1][0].rank == 3);
    CHECK(links[0][1].rank == 0);
    CHECK(links[0][0].rank == 1);  // no link
    CHECK(links[1][2].kind == LinkClass::nvlink);
    links = alike(3);
    rank_by_rate(links, gpu_infos, three_gpus_each(100e9, 95e9), "a");
    CHECK(links[1][2].rank == links[1][0].rank);
    links = alike(3);
    rank_by_rate(links, gpu_infos, three_gpus_each(90e9, 89e9), "a");  // a step begins at 89.4 GB/s
    CHECK(links[1][2].rank == 0);
    CHECK(links[1][0].rank == 1);
    links = alike(3);
    rank_by_rate(links, gpu_infos, three_gpus_each(100e9, 50e9), "elsewhere");  // as the first host
    CHECK(links[1][0].rank == 3);
    links = alike(3);
    rank_by_rate(links, gpu_infos, {}, "a");
    CHECK(links == alike(3));
    links = alike(5);  // more GPUs than the file has
    rank_by_rate(links, std::vector<GpuInfo>(5), three_gpus_each(1, 1), "b");
    CHECK(links == alike(5));
}

TEST_CASE("links of a kind are ordered by rate only if all of them were measured") {
    const std::vector<GpuInfo> gpu_infos{
        {"GPU", "0000:00:00.0", 0, 0}, {"GPU", "0000:01:00.0", 0, 0}, {"GPU", "0000:02:00.0", 0, 0}};
    Hardware hardware = three_gpus_each(100e9, 50e9);
    hardware.hosts[0].gpus[2].peers[1] = {};
    GpuLinks links = alike(3);
    rank_by_rate(links, gpu_infos, hardware, "a");
    CHECK(links == alike(3));
    links[2][1] = {LinkClass::pcie, 5};
    rank_by_rate(links, gpu_infos, hardware, "a");
    CHECK(links[0][1].rank == 0);
    CHECK(links[0][2].rank == 3);
    CHECK(links[2][1].rank == 5);
}

TEST_CASE("links between hosts are ordered by their rates if all of them were measured") {
    const std::vector<std::string> names{"b", "a"};
    const HostRates rates = rates_between(three_gpus_each(1, 1), names);
    CHECK(rates.link_ranks == std::vector<std::vector<int>>{{0, 3}, {0, 0}});
    CHECK(rates.nics == std::vector<double>{1e9, 4e9});
    for (const Hardware& unnamed : {Hardware{}, three_gpus_each(1, 1)}) {
        const HostRates none = rates_between(unnamed, std::vector<std::string>{"b", "a", "new"});
        CHECK(none.link_ranks.empty());
        CHECK(none.nics.empty());
    }
    Hardware without_link = three_gpus_each(1, 1);
    without_link.links[0][1] = {};
    CHECK(rates_between(without_link, names).link_ranks.empty());
    CHECK(rates_between(without_link, names).nics.size() == 2);
    Hardware without_nic = three_gpus_each(1, 1);
    without_nic.hosts[0].nic = {};
    CHECK(rates_between(without_nic, names).nics.empty());
    CHECK(rates_between(without_nic, names).link_ranks.size() == 2);
}

TEST_CASE("files of tpx profile hardware order links") {
    const Hardware written = three_gpus_each(100e9, 50e9);
    const Hardware read = formats::parse_hardware(formats::hardware_text(written), "hardware.toml");
    GpuLinks links = alike(3);
    const std::vector<GpuInfo> gpu_infos{
        {"GPU", "0000:00:00.0", 0, 0}, {"GPU", "0000:01:00.0", 0, 0}, {"GPU", "0000:02:00.0", 0, 0}};
    rank_by_rate(links, gpu_infos, read, "a");
    CHECK(links[0][1].rank == 0);
    CHECK(links[0][2].rank == 3);
    CHECK(rates_between(read, std::vector<std::string>{"a", "b"}).nics.size() == 2);
}
