// SPDX-License-Identifier: Apache-2.0
#include "lib/model/hardware.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace tpx {
namespace {

struct Quantity {
    std::string_view name;
    MeasuredRate HostHardware::*measured;
    std::optional<double> Host::*given;
};
constexpr std::array<Quantity, 4> quantities{{{"memory", &HostHardware::memory, &Host::memory},
                                              {"disk read", &HostHardware::disk_read, &Host::disk_read},
                                              {"disk write", &HostHardware::disk_write, &Host::disk_write},
                                              {"NIC", &HostHardware::nic, &Host::nic}}};

bool near(double a, double b, double tolerance) { return std::abs(a - b) <= tolerance * std::max(a, b); }

bool alike(const HostHardware& a, const HostHardware& b, double tolerance) {
    return a.gpus == b.gpus && std::ranges::all_of(quantities, [&](const Quantity& quantity) {
               return near((a.*quantity.measured).rate, (b.*quantity.measured).rate, tolerance);
           });
}

double median(std::vector<double> values) {
    std::ranges::sort(values);
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

void find_nics(Hardware& hardware) {
    for (std::size_t a = 0; a < hardware.links.size(); ++a)
        for (std::size_t b = 0; b < hardware.links.size(); ++b)
            for (const MeasuredRate& link : {hardware.links[a][b], hardware.links[b][a]})
                if (a != b && link.rate > hardware.hosts[a].nic.rate) hardware.hosts[a].nic = link;
}

std::vector<int> merge_classes(Hardware& hardware, double tolerance) {
    std::vector<int> classes(hardware.hosts.size(), -1);
    int count = 0;
    for (std::size_t first = 0; first < hardware.hosts.size(); ++first) {
        if (classes[first] >= 0) continue;
        std::vector<std::size_t> members;
        for (std::size_t other = first; other < hardware.hosts.size(); ++other)
            if (classes[other] < 0 && alike(hardware.hosts[first], hardware.hosts[other], tolerance)) {
                classes[other] = count;
                members.push_back(other);
            }
        ++count;
        for (const Quantity& quantity : quantities) {
            std::vector<double> rates;
            for (const std::size_t member : members) rates.push_back((hardware.hosts[member].*quantity.measured).rate);
            const double common = median(rates);
            for (const std::size_t member : members) (hardware.hosts[member].*quantity.measured).rate = common;
        }
    }
    return classes;
}

std::vector<SlowLink> slow_links(const Hardware& hardware) {
    std::vector<SlowLink> slow;
    for (std::size_t a = 0; a < hardware.links.size(); ++a)
        for (std::size_t b = 0; b < hardware.links.size(); ++b) {
            const double expected = std::min(hardware.hosts[a].nic.rate, hardware.hosts[b].nic.rate);
            if (a != b && hardware.links[a][b].rate < 0.9 * expected) slow.push_back({a, b, expected});
        }
    return slow;
}

std::vector<Degraded> degraded(std::span<const Host> before, const Hardware& now) {
    std::vector<Degraded> found;
    for (const HostHardware& host : now.hosts) {
        const auto old = std::ranges::find(before, host.name, &Host::name);
        if (old == before.end()) continue;
        for (const Quantity& quantity : quantities) {
            const std::optional<double>& given = (*old).*quantity.given;
            const MeasuredRate& measured = host.*quantity.measured;
            if (!given || measured.rate <= 0) continue;
            const double allowed = std::max(0.1, 3 * measured.spread);
            if (measured.rate < (1 - allowed) * *given)
                found.push_back({host.name, quantity.name, *given, measured.rate});
        }
    }
    return found;
}

std::vector<std::string> noisy(const Hardware& hardware) {
    std::vector<std::string> lines;
    for (const HostHardware& host : hardware.hosts)
        for (const Quantity& quantity : quantities)
            if ((host.*quantity.measured).spread > 0.2)
                lines.push_back(fmt::format("{}: {}: samples spread by {:.0f} %", host.name, quantity.name,
                                            100 * (host.*quantity.measured).spread));
    return lines;
}

}  // namespace tpx
