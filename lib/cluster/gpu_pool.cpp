// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/gpu_pool.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>

namespace tpx {

GpuPool::GpuPool(const Cluster& cluster) : free_(cluster.kinds.size()) {
    for (const ClusterHost& host : cluster.hosts) {
        hosts_.push_back({host.kind, host.gpus, host.cpus, host.memory, host.cpus > 0, host.memory > 0});
        free_[host.kind] += host.gpus;
        total_ += host.gpus;
    }
}

int GpuPool::free(int kind) const { return kind == any ? total_ : free_[kind]; }

// How many GPUs with all that belongs to them a job could have on `host`.
int GpuPool::room(const Host& host, const Needs& needs) const {
    if (!host.up) return 0;
    double most = host.gpus;
    constexpr double rounding = 1e-9;
    if (host.counts_cpus && needs.cpus > 0) most = std::min(most, std::floor(host.cpus / needs.cpus + rounding));
    if (host.counts_memory && needs.memory > 0)
        most = std::min(most, std::floor(host.memory / needs.memory + rounding));
    return static_cast<int>(most);
}

std::optional<Grant> GpuPool::place_on_kind(const Needs& needs, int gpus, int kind) const {
    if (free_[kind] < gpus) return {};
    int best = any, best_room = 0, total = 0;
    std::vector<GpuShare> rooms;
    for (int i = 0; i < static_cast<int>(hosts_.size()); ++i) {
        if (hosts_[i].kind != kind || hosts_[i].gpus == 0) continue;
        const int here = room(hosts_[i], needs);
        if (here == 0) continue;
        if (here >= gpus && (best == any || here < best_room)) best = i, best_room = here;
        if (best != any) continue;
        rooms.push_back({i, here});
        total += here;
    }
    if (best != any) return Grant{{{best, gpus}}};
    if (total < gpus) return {};
    std::ranges::stable_sort(rooms, std::greater{}, &GpuShare::gpus);
    Grant grant;
    auto next = rooms.begin();
    for (; gpus > 0 && next->gpus <= gpus; gpus -= next->gpus, ++next) grant.parts.push_back(*next);
    if (gpus > 0) {  // the rest where it leaves least behind
        while (next + 1 != rooms.end() && (next + 1)->gpus >= gpus) ++next;
        grant.parts.push_back({next->host, gpus});
    }
    std::ranges::sort(grant.parts, {}, &GpuShare::host);
    return grant;
}

std::optional<Grant> GpuPool::place(const Needs& needs, int gpus) const {
    if (needs.kind != any) return place_on_kind(needs, gpus, needs.kind);
    for (const int kind : needs.kinds)
        if (auto grant = place_on_kind(needs, gpus, kind)) return grant;
    for (int kind = 0; needs.kinds.empty() && kind < static_cast<int>(free_.size()); ++kind)
        if (auto grant = place_on_kind(needs, gpus, kind)) return grant;
    return {};
}

bool GpuPool::fits(const Needs& needs, std::span<const GpuShare> parts) const {
    return std::ranges::all_of(parts,
                               [&](const GpuShare& part) { return part.gpus <= room(hosts_[part.host], needs); });
}

std::optional<Grant> GpuPool::place_more(const Needs& needs, const Grant& held, int more) const {
    Grant grown = held;
    for (GpuShare& part : grown.parts) {
        const int here = std::min(more, room(hosts_[part.host], needs));
        part.gpus += here;
        more -= here;
    }
    if (more == 0) return grown;
    Needs same = needs;
    same.kind = hosts_[held.parts[0].host].kind;
    GpuPool rest = *this;
    rest.take(needs, difference_of(grown.parts, held.parts));
    const auto further = rest.place_on_kind(same, more, same.kind);
    if (!further) return {};
    grown.parts = sum_of(grown.parts, further->parts);
    return grown;
}

Grant GpuPool::part_of(const Grant& held, int gpus) {
    Grant kept = held;
    std::ranges::stable_sort(kept.parts, std::greater{}, &GpuShare::gpus);
    for (GpuShare& part : kept.parts) {
        part.gpus = std::min(part.gpus, gpus);
        gpus -= part.gpus;
    }
    std::erase_if(kept.parts, [](const GpuShare& part) { return part.gpus == 0; });
    std::ranges::sort(kept.parts, {}, &GpuShare::host);
    return kept;
}

void GpuPool::take(const Needs& needs, std::span<const GpuShare> parts) {
    for (const GpuShare& part : parts) {
        Host& host = hosts_[part.host];
        assert(host.up && host.gpus >= part.gpus);
        host.gpus -= part.gpus;
        host.cpus -= part.gpus * needs.cpus;
        host.memory -= part.gpus * needs.memory;
        free_[host.kind] -= part.gpus;
        total_ -= part.gpus;
    }
}

void GpuPool::give(const Needs& needs, std::span<const GpuShare> parts) {
    for (const GpuShare& part : parts) {
        Host& host = hosts_[part.host];
        host.gpus += part.gpus;
        host.cpus += part.gpus * needs.cpus;
        host.memory += part.gpus * needs.memory;
        if (!host.up) continue;
        free_[host.kind] += part.gpus;
        total_ += part.gpus;
    }
}

void GpuPool::set_up(int host, bool up) {
    if (hosts_[host].up == up) return;
    hosts_[host].up = up;
    const int change = up ? hosts_[host].gpus : -hosts_[host].gpus;
    free_[hosts_[host].kind] += change;
    total_ += change;
}

std::vector<GpuShare> sum_of(std::span<const GpuShare> a, std::span<const GpuShare> b) {
    std::map<int, int> gpus;
    for (const GpuShare& part : a) gpus[part.host] += part.gpus;
    for (const GpuShare& part : b) gpus[part.host] += part.gpus;
    std::vector<GpuShare> parts;
    for (const auto& [host, count] : gpus)
        if (count > 0) parts.push_back({host, count});
    return parts;
}

std::vector<GpuShare> difference_of(std::span<const GpuShare> a, std::span<const GpuShare> b) {
    std::vector<GpuShare> minus(b.begin(), b.end());
    for (GpuShare& part : minus) part.gpus = -part.gpus;
    return sum_of(a, minus);
}

}  // namespace tpx
