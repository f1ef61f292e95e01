// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/measured_links.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

namespace tpx::cli {
namespace {

/// How many steps of 25 % a rate is below the best one.
int steps_below(double best, double rate) {
    constexpr double step = 1.25;
    return static_cast<int>(std::lround(std::log(best / rate) / std::log(step)));
}

/// The number of the host with this name.
std::optional<std::size_t> number_of_host(const Hardware& hardware, const std::string& name) {
    const auto found = std::ranges::find(hardware.hosts, name, &HostHardware::name);
    if (found == hardware.hosts.end()) return std::nullopt;
    return static_cast<std::size_t>(found - hardware.hosts.begin());
}

/// The number in the file of a GPU: the one with the same address, else with the same number.
std::size_t number_of_gpu(const HostHardware& host, const std::string& bus, std::size_t number) {
    const auto found = std::ranges::find(host.gpus, bus, &GpuHardware::bus);
    return found == host.gpus.end() ? number : static_cast<std::size_t>(found - host.gpus.begin());
}

/// Bytes per second; 0: not measured.
double peer_rate(const HostHardware& host, std::size_t from, std::size_t to) {
    return from < host.gpus.size() && to < host.gpus[from].peers.size() ? host.gpus[from].peers[to].median : 0;
}

double host_rate(const Hardware& hardware, std::size_t from, std::size_t to) {
    return from < hardware.links.size() && to < hardware.links[from].size() ? hardware.links[from][to].rate.median : 0;
}

/// The ranks of the links between the hosts with these numbers; empty if one of them was not measured.
std::vector<std::vector<int>> ranks_of_links(const Hardware& hardware, std::span<const std::size_t> hosts) {
    double best = 0;
    for (std::size_t from = 0; from < hosts.size(); ++from)
        for (std::size_t to = 0; to < hosts.size(); ++to) {
            const double rate = host_rate(hardware, hosts[from], hosts[to]);
            if (from != to && rate <= 0) return {};
            if (from != to) best = std::max(best, rate);
        }
    std::vector<std::vector<int>> ranks(hosts.size(), std::vector<int>(hosts.size()));
    for (std::size_t from = 0; from < hosts.size(); ++from)
        for (std::size_t to = 0; to < hosts.size(); ++to)
            if (from != to) ranks[from][to] = steps_below(best, host_rate(hardware, hosts[from], hosts[to]));
    return ranks;
}

struct RatedLink {
    MemoryLink* link = nullptr;
    double rate = 0;  ///< 0: not measured
};

}  // namespace

void rank_by_rate(GpuLinks& links, std::span<const GpuInfo> gpu_infos, const Hardware& hardware,
                  const std::string& name) {
    if (hardware.hosts.empty()) return;
    // Hosts that the file does not name are like its first one, as for other rates of hardware files.
    const HostHardware& host = hardware.hosts[number_of_host(hardware, name).value_or(0)];
    std::vector<std::size_t> numbers;
    for (std::size_t k = 0; k < gpu_infos.size(); ++k) numbers.push_back(number_of_gpu(host, gpu_infos[k].bus, k));
    std::map<LinkClass, std::vector<RatedLink>> by_kind;
    for (std::size_t from = 0; from < links.size(); ++from)
        for (std::size_t to = 0; to < links[from].size(); ++to)
            if (from != to)
                by_kind[links[from][to].kind].push_back(
                    {&links[from][to], peer_rate(host, numbers[from], numbers[to])});
    for (const auto& [kind, rated] : by_kind) {
        const auto [least, best] = std::ranges::minmax(rated, {}, &RatedLink::rate);
        if (least.rate <= 0) continue;
        for (const RatedLink& one : rated) one.link->rank = steps_below(best.rate, one.rate);
    }
}

HostRates rates_between(const Hardware& hardware, std::span<const std::string> names) {
    std::vector<std::size_t> hosts;
    std::vector<double> nics;
    for (const std::string& name : names) {
        const std::optional<std::size_t> host = number_of_host(hardware, name);
        if (!host) return {};
        hosts.push_back(*host);
        nics.push_back(hardware.hosts[*host].nic.median);
    }
    if (std::ranges::any_of(nics, [](double rate) { return rate <= 0; })) nics.clear();
    return {ranks_of_links(hardware, hosts), std::move(nics)};
}

}  // namespace tpx::cli
