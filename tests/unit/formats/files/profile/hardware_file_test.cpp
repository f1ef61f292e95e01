// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/hardware_file.hpp"

#include "formats/files/plan/host_names.hpp"
#include "formats/files/plan/hosts_file.hpp"
#include "lib/core/error.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>

using namespace tpx;
using namespace tpx::formats;

namespace {

Hardware measured(int hosts) {
    Hardware hardware;
    for (int i = 0; i < hosts; ++i) {
        HostHardware& host = hardware.hosts.emplace_back();
        host.name = fmt::format("n{:03}", i);
        host.switch_group = i < hosts / 2 ? "leaf1" : "leaf2";
        host.ranks = 8;
        host.sockets = 2;
        host.cores = 64;
        double rate = 1e9;
        for (const auto& quantity : host_quantities) host.*quantity.value = {rate += 1e9, 0.015};
        host.same_socket = {{9e9, 0.02}, {2.5e-7, 0.1}};
        for (int k = 0; k < 2; ++k) {
            GpuHardware& gpu = host.gpus.emplace_back();
            gpu.name = "NVIDIA \"H100\"";
            gpu.bus = "0000:3b:00.0";
            gpu.numa_node = k;
            gpu.nvlinks = 18;
            gpu.to_device = {5.5e10, 0.001};
            gpu.peers = {{3.9e11, 0.002}, {3.8e11, 0.003}};
            gpu.peers[k] = {};
        }
    }
    hardware.links.assign(hosts, std::vector<LinkHardware>(hosts));
    for (int a = 0; a < hosts; ++a)
        for (int b = 0; b < hosts; ++b)
            if (a != b) hardware.links[a][b] = {{4e9, 0.01}, {1.5e-6, 0.04}};
    hardware.nccl = {.gpus = 2 * hosts, .between = {}, .all_reduce = {2e11, 0.01}};
    hardware.nccl.between[3] = {4.5e10, 0.02};
    return hardware;
}

std::string fault(const std::string& text) {
    try {
        parse_hardware(text, "old.toml");
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::usage);
        return error.what();
    }
    return "accepted";
}

// A machine that was idle, busy or suspended: figures of any size, zeros, and the effects of a stopped clock.
class AnyHardware {
public:
    explicit AnyHardware(unsigned seed) : random_{seed} {}

    Hardware cluster() {
        Hardware hardware;
        const std::size_t hosts = number(1, chance(10) ? 20 : 4);
        for (std::size_t i = 0; i < hosts; ++i) hardware.hosts.push_back(host(i));
        if (hosts > 1 && chance(80)) {
            hardware.links.assign(hosts, std::vector<LinkHardware>(hosts));
            for (std::size_t a = 0; a < hosts; ++a)
                for (std::size_t b = 0; b < hosts; ++b)
                    if (a != b) hardware.links[a][b] = {figure(), figure()};
        }
        hardware.nccl.gpus = chance(50) ? number(1, 64) : 0;
        for (MeasuredValue& rate : hardware.nccl.between) rate = figure();
        hardware.nccl.all_reduce = figure();
        return hardware;
    }

private:
    bool chance(int percent) { return number(1, 100) <= percent; }
    int number(int least, int most) { return std::uniform_int_distribution{least, most}(random_); }

    double value() {
        constexpr double infinite = std::numeric_limits<double>::infinity();
        constexpr std::array<double, 10> special{0, 1, 1e3, 1e15, 5e-10, 100, 1e300, 5e-324, infinite, -infinite};
        if (chance(2)) return std::nan("");
        if (chance(20)) return special[number(0, special.size() - 1)];
        return size();
    }
    double size() { return std::pow(10, std::uniform_real_distribution{-12.0, 17.0}(random_)); }
    MeasuredValue figure() { return chance(15) ? MeasuredValue{} : MeasuredValue{value(), chance(50) ? 0.01 : size()}; }

    // Any bytes except those that denote lists of names.
    std::string text() {
        std::string text;
        for (int i = number(0, 6); i > 0; --i)
            text += static_cast<char>(chance(30) ? number('0', '9') : number(1, 255));
        std::erase_if(text, [](char c) { return c == '[' || c == ']' || c == ','; });
        return text;
    }

    HostHardware host(std::size_t index) {
        HostHardware host;
        host.name = chance(50) ? fmt::format("n{}", index) : fmt::format("{}{}", text(), index);
        // Hosts have no such names, and files of hosts refuse them.
        std::erase_if(host.name, [](unsigned char c) { return c < 0x20 || c == 0x7f || c == '/'; });
        host.name += fmt::format("-{}", index);  // unique names
        host.switch_group = text();
        host.ranks = number(1, 8);
        host.sockets = number(0, 2);
        for (const auto& quantity : host_quantities) host.*quantity.value = figure();
        host.same_socket = {figure(), figure()};
        host.same_host = {figure(), figure()};
        host.gpus.resize(static_cast<std::size_t>(number(0, 2)));
        for (GpuHardware& gpu : host.gpus) {
            gpu = {.name = text(), .bus = text(), .numa_node = number(-1, 1), .nvlinks = number(0, 18)};
            for (const auto& quantity : gpu_quantities) gpu.*quantity.value = figure();
            for (std::size_t k = chance(50) ? host.gpus.size() : 0; k > 0; --k) gpu.peers.push_back(figure());
        }
        return host;
    }

    std::mt19937 random_;
};

// Whether `read` is `written` after a round trip through a file.
bool is_kept(const MeasuredValue& read, const MeasuredValue& written, const FigureRange& range) {
    if (!range.has(written.median)) return read.spread == 0;  // none, or what plans take in place of it
    return std::abs(read.median - written.median) <= std::max(written.median < 1 ? 0 : 0.5, 1e-3 * written.median) &&
           std::abs(read.spread - written.spread) <= 0.01 * written.spread;
}

constexpr const char* two_hosts = "[[hosts]]\nname = \"a\"\n[[hosts]]\nname = \"b\"\n[measured]\n";

}  // namespace

TEST_CASE("a file is read back with every figure and its spread") {
    for (const int hosts : {1, 2, 4, 20}) {
        CAPTURE(hosts);
        const Hardware hardware = measured(hosts);
        const std::string text = hardware_text(hardware);
        const Hardware read = parse_hardware(text, "cluster");  // known by its first lines, too
        REQUIRE(read.hosts.size() == hardware.hosts.size());
        CHECK(hardware_text(read) == text);
        for (std::size_t i = 0; i < read.hosts.size(); ++i) {
            for (const auto& quantity : host_quantities)
                CHECK(read.hosts[i].*quantity.value == hardware.hosts[i].*quantity.value);
            CHECK(read.hosts[i].switch_group == hardware.hosts[i].switch_group);
            CHECK(read.hosts[i].gpus[1].peers == hardware.hosts[i].gpus[1].peers);
            for (std::size_t k = 0; hosts > 1 && k < read.hosts.size(); ++k)
                CHECK(read.links[i][k].rate == hardware.links[i][k].rate);
        }
        CHECK(read.nccl.between == hardware.nccl.between);
    }
}

TEST_CASE("hosts of a class are written together, and plans read them") {
    const std::string text = hardware_text(measured(20));
    CHECK(text.find("name = \"n[000-009]\"") != text.npos);
    CHECK(text.find("name = \"n[010-019]\"") != text.npos);  // separate, as it is on another switch
    CHECK(text.find("links = [") == text.npos);              // there are many, all about equal
    const std::vector<Host> hosts = parse_hosts(text, "cluster.toml");
    REQUIRE(hosts.size() == 20);
    CHECK(hosts[13].name == "n013");
    CHECK(hosts[13].nic == 12e9);
    CHECK(hosts[13].gpus == 2);          // the number of GPUs, not of the ranks that were started
    CHECK(hosts[13].disk_read == 10e9);  // while all hosts read
    CHECK(hosts[13].switch_group == "leaf2");
}

TEST_CASE("one uneven link puts all links into the file") {
    Hardware hardware = measured(20);
    hardware.links[3][7].rate.median = 1e9;
    const Hardware read = parse_hardware(hardware_text(hardware), "cluster.toml");
    CHECK(read.links[3][7].rate.median == 1e9);
    CHECK(read.links[7][3].rate.median == 4e9);
}

TEST_CASE("a file of any measurement can be read, also by plans, with every valid figure") {
    AnyHardware any{7};
    for (int i = 0; i < 1000; ++i) {
        const Hardware hardware = any.cluster();
        const std::string text = hardware_text(hardware);
        CAPTURE(text);
        const Hardware read = parse_hardware(text, "cluster.toml");
        REQUIRE(read.hosts.size() == hardware.hosts.size());
        CHECK(parse_hosts(text, "cluster.toml").size() == hardware.hosts.size());
        for (std::size_t h = 0; h < read.hosts.size(); ++h) {
            const HostHardware &host = hardware.hosts[h], &own = read.hosts[h];
            for (const auto& quantity : host_quantities)
                CHECK(is_kept(own.*quantity.value, host.*quantity.value, rates_of_files));
            CHECK(is_kept(own.same_socket.latency, host.same_socket.latency, times_of_files));
            REQUIRE(own.gpus.size() == host.gpus.size());
            for (std::size_t k = 0; k < host.gpus.size(); ++k) {
                CHECK(is_kept(own.gpus[k].copy, host.gpus[k].copy, rates_of_files));
                REQUIRE(own.gpus[k].peers.size() == host.gpus[k].peers.size());
            }
            for (std::size_t k = 0; k < hardware.links.size() && k < 16; ++k) {
                const LinkHardware link = read.links.empty() ? LinkHardware{} : read.links[h][k];
                CHECK(is_kept(link.rate, hardware.links[h][k].rate, rates_of_files));
                CHECK(is_kept(link.latency, hardware.links[h][k].latency, times_of_files));
            }
        }
        CHECK(parse_hardware(hardware_text(read), "cluster.toml").hosts.size() == read.hosts.size());
        degraded(hardware, read);
    }
}

TEST_CASE("hosts without measured links are read as such") {
    Hardware hardware = measured(2);
    hardware.links.clear();
    CHECK(parse_hardware(hardware_text(hardware), "cluster.toml").links.empty());
    CHECK(parse_hardware("[[hosts]]\nname = \"a\"\n[measured]\nlinks = [[[]]]\n", "one.toml").links.empty());
    const std::string latency = std::string{two_hosts} + "latency = [[[], [1e-6, 0]], [[1e-6, 0], []]]\n";
    CHECK(parse_hardware(latency, "two.toml").links[1][0].latency.median == 1e-6);
}

TEST_CASE("samples that differ by more than a factor of a thousand are read back unchanged") {
    Hardware hardware = measured(2);
    hardware.hosts[0].disk_write = {1e6, 1240};
    CHECK(parse_hardware(hardware_text(hardware), "cluster.toml").hosts[0].disk_write == hardware.hosts[0].disk_write);
}

TEST_CASE("a file of hosts without measurements has their rates without spread") {
    const Hardware read = parse_hardware("[[hosts]]\nname = \"n[0-1]\"\nnic = \"200 Gbit/s\"\n", "hosts.toml");
    REQUIRE(read.hosts.size() == 2);
    CHECK(read.hosts[1].nic == MeasuredValue{25e9, 0});
    CHECK(parse_hardware("n0 slots=4\n", "hostfile").hosts[0].ranks == 4);
}

TEST_CASE("implausible figures are refused with their line") {
    const auto with = [](const std::string& line) { return fault(two_hosts + line + "\n"); };
    CHECK(with("[[measured.hosts]]\nname = \"a\"\nmemory = [-5, 0.1]") ==
          "old.toml:8: -5 bytes per second cannot be right");
    CHECK(with("[[measured.hosts]]\nname = \"a\"\nmemory = [0, 0]") ==
          "old.toml:8: 0 bytes per second cannot be right");
    CHECK(with("[[measured.hosts]]\nname = \"a\"\nmemory = [1e30, 0]") ==
          "old.toml:8: 1e+30 bytes per second cannot be right");
    CHECK(with("[[measured.hosts]]\nname = \"a\"\nmemory = [nan, 0]") ==
          "old.toml:8: nan bytes per second cannot be right");
    CHECK(with("[[measured.hosts]]\nname = \"a\"\nsame_host_latency = [1e6, 0]") ==
          "old.toml:8: 1e+06 seconds cannot be right");
    CHECK(with("[[measured.hosts]]\nname = \"a\"\nmemory = [1e9, -1]") == "old.toml:8: a spread of -1 cannot be right");
    CHECK(with("[[measured.hosts]]\nname = \"a\"\nmemory = [1e9, inf]") ==
          "old.toml:8: a spread of inf cannot be right");
    CHECK(with("[[measured.hosts]]\nname = \"a\"\nmemory = 1e9") == "old.toml:8: an array of 2 values was expected");
    CHECK(with("[[measured.hosts]]\nname = \"a\"\nmemory = [\"1 GB/s\", 0]") ==
          "old.toml:8: two numbers were expected: a median and a spread");
    CHECK(with("links = [[[], [1e9, 0]]]") == "old.toml:6: an array of 2 values was expected");
    CHECK(with("links = [[[], [1e9, 0]], [[1e9, 0], [1e9, 0]]]") ==
          "old.toml:6: a host has no link to itself: [] was expected");
    CHECK(fault("[[hosts]]\nname = \"a\"\nnic = 25\n") ==
          "old.toml:3: nic: 25 bytes per second cannot be right; write the unit, as in \"25 GB/s\"");
    CHECK(fault("[[hosts]]\nname = \"a\"\nnic = 0\n").starts_with("old.toml:3: nic: a rate is a positive number"));
    CHECK(fault("[[hosts]]\nname = \"a\"\nnic = \"25 furlongs\"\n").starts_with("old.toml:3: nic: "));
}

TEST_CASE("unknown keys, and figures of unknown hosts, are refused") {
    const auto with = [](const std::string& line) { return fault(two_hosts + line + "\n"); };
    CHECK(with("color = 3") == "old.toml:6: unknown key 'color'; tpx-hardware(5) lists the known keys");
    CHECK(with("[[measured.hosts]]\nname = \"a\"\nmemry = [1e9, 0]").starts_with("old.toml:8: unknown key 'memry'"));
    CHECK(with("[[measured.hosts]]\nname = \"c\"") == "old.toml:7: no [[hosts]] table has the host 'c'");
    CHECK(with("[[measured.hosts]]\nmemory = [1e9, 0]") == "old.toml:6: a host needs a name");
    CHECK(with("[[measured.hosts]]\nname = \"a\"\n[[measured.hosts.gpus]]\nname = \"x\"\npeers = [[], []]") ==
          "old.toml:10: an array of 1 values was expected");
    CHECK(with("[measured.pairs.near]\nrate = [1e9, 0]").starts_with("old.toml:6: unknown key 'near'"));
    CHECK(with("[measured.nccl]\ngpus = -1") == "old.toml:7: a whole number from 1 to 1000000 was expected");
    CHECK(fault("[[hosts]]\nname = \"a\"\n[measure]\n").starts_with("old.toml:3: 'measure'"));
}

TEST_CASE("names are folded as in Slurm, and expanded again") {
    for (const std::vector<std::string>& names : {std::vector<std::string>{"n0", "n1", "n2"},
                                                  {"n9", "n10"},
                                                  {"n09", "n10"},
                                                  {"a", "b7", "b8", "c"},
                                                  {"x"},
                                                  {"1", "2"},
                                                  {"n1", "m2"},
                                                  {"n99999999999", "n99999999998"}}) {
        CAPTURE(names.front());
        CHECK(expand_host_names(fold_host_names(names)) == names);
    }
    CHECK(fold_host_names({"n08", "n09", "n10", "m"}) == "n[08-10],m");
}
