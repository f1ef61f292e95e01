// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/measured_links.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tpx::cli {
namespace {

/// How many steps of 25 % a rate is below the best one.
int steps_below(double best, double rate) {
    constexpr double step = 1.25;
    return static_cast<int>(std::lround(std::log(best / rate) / std::log(step)));
}

/// The number of the host with this name; else the first, as for other rates of hardware files.
std::size_t number_of_host(const Hardware& hardware, const std::string& name) {
    const auto found = std::ranges::find(hardware.hosts, name, &HostHardware::name);
    return found == hardware.hosts.end() ? 0 : static_cast<std::size_t>(found - hardware.hosts.begin());
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

}  // namespace

void rank_by_rate(GpuLinks& links, std::span<const GpuInfo> rooms, const Hardware& hardware, const std::string& name) {
    if (hardware.hosts.empty()) return;
    const HostHardware& host = hardware.hosts[number_of_host(hardware, name)];
    std::vector<std::size_t> numbers;
    for (std::size_t k = 0; k < rooms.size(); ++k) numbers.push_back(number_of_gpu(host, rooms[k].bus, k));
    double best = 0;
    for (const GpuHardware& gpu : host.gpus)
        for (const MeasuredValue& peer : gpu.peers) best = std::max(best, peer.median);
    for (std::size_t from = 0; from < links.size(); ++from)
        for (std::size_t to = 0; to < links[from].size(); ++to) {
            const double rate = from == to ? 0 : peer_rate(host, numbers[from], numbers[to]);
            if (rate > 0) links[from][to].rank = steps_below(best, rate);
        }
}

HostRates rates_between(const Hardware& hardware, std::span<const std::string> names) {
    HostRates rates;
    if (hardware.hosts.empty()) return rates;
    double best = 0;
    for (const auto& row : hardware.links)
        for (const LinkHardware& link : row) best = std::max(best, link.rate.median);
    bool has_nics = true;
    for (const std::string& from : names) {
        const std::size_t source = number_of_host(hardware, from);
        rates.ranks.emplace_back();
        for (const std::string& to : names) {
            const double rate = host_rate(hardware, source, number_of_host(hardware, to));
            rates.ranks.back().push_back(rate > 0 ? steps_below(best, rate) : 0);
        }
        rates.nics.push_back(hardware.hosts[source].nic.median);
        has_nics = has_nics && rates.nics.back() > 0;
    }
    if (!has_nics) rates.nics.clear();
    return rates;
}

}  // namespace tpx::cli
