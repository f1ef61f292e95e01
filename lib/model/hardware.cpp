// SPDX-License-Identifier: Apache-2.0
#include "lib/model/hardware.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace tpx {
namespace {

// The rates that make hosts alike, and that plans take: as they are while all hosts work, where that was measured.
struct PlannedRate {
    MeasuredValue HostHardware::*measured;
    MeasuredValue HostHardware::*shared;
    std::optional<double> Host::*planned;
};
constexpr std::array<PlannedRate, 4> planned_rates{
    {{&HostHardware::memory, &HostHardware::memory, &Host::memory},
     {&HostHardware::disk_read, &HostHardware::shared_read, &Host::disk_read},
     {&HostHardware::disk_write, &HostHardware::shared_write, &Host::disk_write},
     {&HostHardware::nic, &HostHardware::nic, &Host::nic}}};

bool alike(const MeasuredValue& a, const MeasuredValue& b) { return agree(a, b, 0.05, 0.25); }

bool alike(const GpuHardware& a, const GpuHardware& b) {
    return a.name == b.name && std::ranges::all_of(gpu_quantities, [&](const Quantity<GpuHardware>& quantity) {
               return alike(a.*quantity.value, b.*quantity.value);
           });
}

// Adds what the GPUs of a host copy, and what they receive from each other.
void add_device_rates(const HostHardware& host, std::vector<double>& copies, std::vector<double>& links) {
    for (const GpuHardware& gpu : host.gpus) {
        if (gpu.copy.median > 0) copies.push_back(gpu.copy.median);
        for (const MeasuredValue& peer : gpu.peers) {
            if (peer.median > 0) links.push_back(peer.median);
        }
    }
}

bool alike(const HostHardware& a, const HostHardware& b) {
    const auto rates = [&](const PlannedRate& rate) { return alike(a.*rate.measured, b.*rate.measured); };
    const auto gpus = [](const GpuHardware& one, const GpuHardware& other) { return alike(one, other); };
    return a.ranks == b.ranks && a.sockets == b.sockets && std::ranges::all_of(planned_rates, rates) &&
           std::ranges::equal(a.gpus, b.gpus, gpus);
}

// Calls `visit` with the name and figures of every link that was measured, and the class of its ends.
template <class Visit>
void for_each_link(const Hardware& hardware, Visit&& visit) {
    for (const HostHardware& host : hardware.hosts) {
        if (host.same_socket.rate.median > 0) visit(host.name, host.same_socket, PairClass::same_socket);
        if (host.same_host.rate.median > 0) visit(host.name, host.same_host, PairClass::same_host);
    }
    for (std::size_t a = 0; a < hardware.links.size(); ++a)
        for (std::size_t b = 0; b < hardware.links.size(); ++b)
            if (hardware.links[a][b].rate.median > 0)
                visit(fmt::format("{} to {}", hardware.hosts[a].name, hardware.hosts[b].name), hardware.links[a][b],
                      class_of_pair(hardware.hosts[a], hardware.hosts[b]));
}

// The median over `links`; its spread is theirs, or how far they differ if that is more.
MeasuredValue typical_of(const std::vector<LinkHardware>& links, MeasuredValue LinkHardware::*value) {
    std::vector<double> medians, spreads;
    for (const LinkHardware& link : links) {
        medians.push_back((link.*value).median);
        spreads.push_back((link.*value).spread);
    }
    const MeasuredValue typical = summarize(medians);
    return {typical.median, std::max(typical.spread, summarize(spreads).median)};
}

// Every rate of the cluster with what it is of, those that are compared or all.
template <class Visit>
void for_each_rate(const Hardware& hardware, bool all, Visit&& visit) {
    for (const HostHardware& host : hardware.hosts) {
        for (const auto& quantity : host_quantities)
            if (all || quantity.compared) visit(fmt::format("{}: {}", host.name, quantity.name), host.*quantity.value);
        for (std::size_t i = 0; i < host.gpus.size(); ++i) {
            const GpuHardware& gpu = host.gpus[i];
            for (const auto& quantity : gpu_quantities)
                visit(fmt::format("{}: GPU {}: {}", host.name, i, quantity.name), gpu.*quantity.value);
            for (std::size_t k = 0; k < gpu.peers.size(); ++k)
                visit(fmt::format("{}: GPU {} to GPU {}", host.name, i, k), gpu.peers[k]);
        }
    }
    for_each_link(hardware, [&](const std::string& name, const LinkHardware& link, PairClass kind) {
        const std::string_view near = pair_class_names[static_cast<std::size_t>(kind)];
        visit(kind <= PairClass::same_host ? fmt::format("{}: {}", name, near) : name, link.rate);
    });
    for (std::size_t kind = 0; kind < pair_class_names.size(); ++kind)
        visit(fmt::format("NCCL: {}", pair_class_names[kind]), hardware.nccl.between[kind]);
    visit("NCCL: all-reduce", hardware.nccl.all_reduce);
}

}  // namespace

void find_nics(Hardware& hardware) {
    for (std::size_t a = 0; a < hardware.links.size(); ++a)
        for (std::size_t b = 0; b < hardware.links.size(); ++b)
            for (const MeasuredValue& rate : {hardware.links[a][b].rate, hardware.links[b][a].rate})
                if (a != b && rate.median > hardware.hosts[a].nic.median) hardware.hosts[a].nic = rate;
}

std::vector<int> classes_of(const Hardware& hardware) {
    std::vector<int> classes(hardware.hosts.size(), -1);
    int count = 0;
    for (std::size_t first = 0; first < hardware.hosts.size(); ++first) {
        if (classes[first] >= 0) continue;
        classes[first] = count;  // even if its figures are so odd that they do not agree with themselves
        for (std::size_t other = first + 1; other < hardware.hosts.size(); ++other)
            if (classes[other] < 0 && alike(hardware.hosts[first], hardware.hosts[other])) classes[other] = count;
        ++count;
    }
    return classes;
}

std::vector<Host> hosts_for_planning(const Hardware& hardware, const std::vector<int>& classes) {
    std::vector<Host> hosts;
    for (const HostHardware& host : hardware.hosts) {
        Host& planned = hosts.emplace_back();
        planned.name = host.name;
        planned.gpus = host.gpus.empty() ? host.ranks : static_cast<int>(host.gpus.size());
        planned.switch_group = host.switch_group;
    }
    const int count = classes.empty() ? 0 : std::ranges::max(classes) + 1;
    for (const PlannedRate& rate : planned_rates) {
        std::vector<std::vector<double>> rates(static_cast<std::size_t>(count));
        for (std::size_t i = 0; i < hosts.size(); ++i) {
            const MeasuredValue& shared = hardware.hosts[i].*rate.shared;
            const MeasuredValue& measured = shared.median > 0 ? shared : hardware.hosts[i].*rate.measured;
            if (measured.median > 0) rates[classes[i]].push_back(measured.median);
        }
        for (std::size_t i = 0; i < hosts.size(); ++i)
            if (!rates[classes[i]].empty()) hosts[i].*rate.planned = summarize(rates[classes[i]]).median;
    }
    for (int number = 0; number < count; ++number) {
        std::vector<double> copies;
        std::vector<double> links;
        for (std::size_t i = 0; i < hosts.size(); ++i) {
            if (classes[i] == number) add_device_rates(hardware.hosts[i], copies, links);
        }
        for (std::size_t i = 0; i < hosts.size(); ++i) {
            if (classes[i] != number) continue;
            if (!copies.empty()) hosts[i].device_copy = summarize(copies).median;
            if (!links.empty()) hosts[i].device_link = summarize(links).median;
        }
    }
    return hosts;
}

PairClass class_of_pair(const HostHardware& a, const HostHardware& b) {
    return !a.switch_group.empty() && a.switch_group == b.switch_group ? PairClass::same_switch : PairClass::other;
}

std::vector<PairSummary> pair_classes(const Hardware& hardware) {
    std::array<std::vector<LinkHardware>, 4> links;
    for_each_link(hardware, [&](const std::string&, const LinkHardware& link, PairClass kind) {
        links[static_cast<std::size_t>(kind)].push_back(link);
    });
    std::vector<PairSummary> summaries;
    for (std::size_t kind = 0; kind < links.size(); ++kind) {
        if (links[kind].empty()) continue;
        PairSummary& summary = summaries.emplace_back();
        summary.kind = static_cast<PairClass>(kind);
        summary.pairs = links[kind].size();
        summary.typical = {typical_of(links[kind], &LinkHardware::rate),
                           typical_of(links[kind], &LinkHardware::latency)};
        summary.slowest = summary.typical.rate.median;
        for (const LinkHardware& link : links[kind]) summary.slowest = std::min(summary.slowest, link.rate.median);
    }
    return summaries;
}

std::vector<SlowLink> slow_links(const Hardware& hardware) {
    std::vector<SlowLink> slow;
    for (std::size_t a = 0; a < hardware.links.size(); ++a)
        for (std::size_t b = 0; b < hardware.links.size(); ++b) {
            const MeasuredValue& rate = hardware.links[a][b].rate;
            const double expected = std::min(hardware.hosts[a].nic.median, hardware.hosts[b].nic.median);
            if (rate.median > 0 && rate.median < (1 - std::max(0.1, rate.spread)) * expected)
                slow.push_back({a, b, expected});
        }
    return slow;
}

bool has_uneven_links(const Hardware& hardware) {
    const std::vector<PairSummary> classes = pair_classes(hardware);
    bool uneven = false;
    for_each_link(hardware, [&](const std::string&, const LinkHardware& link, PairClass kind) {
        const auto own = std::ranges::find(classes, kind, &PairSummary::kind);
        uneven = uneven || (kind >= PairClass::same_switch && !agree(link.rate, (*own).typical.rate, 0.1, 0.1));
    });
    return uneven;
}

std::vector<DegradedRate> degraded(const Hardware& before, const Hardware& now) {
    std::vector<std::pair<std::string, MeasuredValue>> known;
    for_each_rate(before, false,
                  [&](std::string name, const MeasuredValue& rate) { known.emplace_back(std::move(name), rate); });
    std::ranges::sort(known, {}, &std::pair<std::string, MeasuredValue>::first);
    std::vector<DegradedRate> found;
    for_each_rate(now, false, [&](const std::string& name, const MeasuredValue& rate) {
        const auto old = std::ranges::lower_bound(known, name, {}, &std::pair<std::string, MeasuredValue>::first);
        if (old == known.end() || (*old).first != name || rate.median <= 0) return;
        const MeasuredValue& was = (*old).second;
        if (rate.median < was.median && !agree(rate, was, 0.1, 0.75)) found.push_back({name, was.median, rate.median});
    });
    return found;
}

std::vector<std::string> noisy(const Hardware& hardware) {
    std::vector<std::pair<double, std::string>> unsure;
    for_each_rate(hardware, true, [&](std::string name, const MeasuredValue& rate) {
        if (rate.spread > 0.2) unsure.emplace_back(rate.spread, std::move(name));
    });
    std::ranges::stable_sort(unsure, std::ranges::greater{}, &std::pair<double, std::string>::first);
    std::vector<std::string> lines;
    for (const auto& [spread, name] : unsure)
        lines.push_back(fmt::format("{}: samples spread by {:.0f} %", name, 100 * spread));
    return lines;
}

}  // namespace tpx
