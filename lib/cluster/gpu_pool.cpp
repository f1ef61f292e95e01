// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/gpu_pool.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <map>

namespace tpx {

GpuPool::GpuPool(const Cluster& cluster) : free_(cluster.kinds.size()) {
    for (const ClusterHost& host : cluster.hosts) {
        hosts_.push_back({host.kind, host.gpus, host.cpus, host.memory, host.cpus > 0, host.memory > 0});
        free_[host.kind] += host.gpus;
        total_ += host.gpus;
        index_.most = std::max(index_.most, host.gpus);
    }
    if (index_.most > most_indexed) return;
    index_.words = (hosts_.size() + 63) / 64;
    index_.bits.resize(free_.size() * static_cast<std::size_t>(index_.most + 1) * index_.words);
    for (int host = 0; host < static_cast<int>(hosts_.size()); ++host) count(host, true);
}

std::span<const std::uint64_t> GpuPool::hosts_with(int kind, int gpus) const {
    const auto row = static_cast<std::size_t>(kind * (index_.most + 1) + gpus);
    return {index_.bits.data() + row * index_.words, index_.words};
}

// Puts a host that is up where its number of free GPUs belongs, or takes it from there.
void GpuPool::count(int host, bool in) {
    if (index_.words == 0) return;
    const Host& is = hosts_[host];
    const auto row = static_cast<std::size_t>(is.kind * (index_.most + 1) + is.gpus);
    std::uint64_t& word = index_.bits[row * index_.words + static_cast<std::size_t>(host) / 64];
    const std::uint64_t bit = std::uint64_t{1} << host % 64;
    word = in ? word | bit : word & ~bit;
}

// Changes how many GPUs of a host are free.
void GpuPool::move(int host, int more) {
    if (hosts_[host].up) count(host, false);
    hosts_[host].gpus += more;
    if (hosts_[host].up) count(host, true);
}

int GpuPool::free(int kind) const { return kind == any ? total_ : free_[kind]; }

// How many GPUs with all that belongs to them a job could have on `host`.
int GpuPool::room(const Host& host, const GpuRequirements& needs) const {
    if (!host.up) return 0;
    double most = host.gpus;
    constexpr double rounding = 1e-9;
    if (host.counts_cpus && needs.cpus > 0) most = std::min(most, std::floor(host.cpus / needs.cpus + rounding));
    if (host.counts_memory && needs.memory > 0)
        most = std::min(most, std::floor(host.memory / needs.memory + rounding));
    return std::max(0, static_cast<int>(most));
}

std::optional<Grant> GpuPool::place_on_kind(const GpuRequirements& needs, int gpus, int kind) const {
    if (free_[kind] < gpus) return {};
    if (index_.words > 0 && needs.cpus == 0 && needs.memory == 0) return place_by_index(gpus, kind);
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

namespace {

// The first host in a row of the index, from `from` on; none: -1.
int first_host(std::span<const std::uint64_t> row, int from = 0) {
    for (std::size_t word = static_cast<std::size_t>(from) / 64; word < row.size(); ++word) {
        std::uint64_t bits = row[word];
        if (word == static_cast<std::size_t>(from) / 64) bits &= ~std::uint64_t{0} << from % 64;
        if (bits != 0) return static_cast<int>(word * 64) + std::countr_zero(bits);
    }
    return -1;
}

}  // namespace

// What place_on_kind() finds where nothing but GPUs counts; as many are free.
std::optional<Grant> GpuPool::place_by_index(int gpus, int kind) const {
    for (int here = gpus; here <= index_.most; ++here)
        if (const int host = first_host(hosts_with(kind, here)); host >= 0) return Grant{{{host, gpus}}};
    Grant grant;
    int here = index_.most, host = -1;  // the last one that was looked at: most free GPUs first, then in order
    const auto next = [&](int& at_gpus, int& at_host) {
        for (at_host = first_host(hosts_with(kind, at_gpus), at_host + 1); at_host < 0;) {
            if (--at_gpus == 0) return false;
            at_host = first_host(hosts_with(kind, at_gpus));
        }
        return true;
    };
    bool found = next(here, host);
    for (; gpus > 0 && found && here <= gpus; gpus -= here, found = next(here, host))
        grant.parts.push_back({host, here});
    if (gpus > 0) {  // the rest where it leaves least behind: the last host that has as many
        int last = here;
        for (int fewer = here; fewer >= gpus; --fewer)
            if (first_host(hosts_with(kind, fewer)) >= 0) last = fewer;
        for (int at = first_host(hosts_with(kind, last)); at >= 0; at = first_host(hosts_with(kind, last), at + 1))
            if (last < here || at >= host) host = at;
        grant.parts.push_back({host, gpus});
    }
    std::ranges::sort(grant.parts, {}, &GpuShare::host);
    return grant;
}

std::optional<Grant> GpuPool::place(const GpuRequirements& needs, int gpus) const {
    if (needs.kind != any) return place_on_kind(needs, gpus, needs.kind);
    for (const int kind : needs.kinds)
        if (auto grant = place_on_kind(needs, gpus, kind)) return grant;
    for (int kind = 0; needs.kinds.empty() && kind < static_cast<int>(free_.size()); ++kind)
        if (auto grant = place_on_kind(needs, gpus, kind)) return grant;
    return {};
}

bool GpuPool::fits(const GpuRequirements& needs, std::span<const GpuShare> parts) const {
    return std::ranges::all_of(parts,
                               [&](const GpuShare& part) { return part.gpus <= room(hosts_[part.host], needs); });
}

std::optional<Grant> GpuPool::place_more(const GpuRequirements& needs, const Grant& held, int more) const {
    Grant grown = held;
    for (GpuShare& part : grown.parts) {
        const int here = std::min(more, room(hosts_[part.host], needs));
        part.gpus += here;
        more -= here;
    }
    if (more == 0) return grown;
    GpuRequirements same = needs;
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

void GpuPool::take(const GpuRequirements& needs, std::span<const GpuShare> parts) {
    for (const GpuShare& part : parts) {
        Host& host = hosts_[part.host];
        assert(host.up && host.gpus >= part.gpus);
        move(part.host, -part.gpus);
        host.cpus -= part.gpus * needs.cpus;
        host.memory -= part.gpus * needs.memory;
        free_[host.kind] -= part.gpus;
        total_ -= part.gpus;
    }
}

void GpuPool::give(const GpuRequirements& needs, std::span<const GpuShare> parts) {
    for (const GpuShare& part : parts) {
        Host& host = hosts_[part.host];
        move(part.host, part.gpus);
        host.cpus += part.gpus * needs.cpus;
        host.memory += part.gpus * needs.memory;
        if (!host.up) continue;
        free_[host.kind] += part.gpus;
        total_ += part.gpus;
    }
}

void GpuPool::set_up(int host, bool up) {
    if (hosts_[host].up == up) return;
    if (!up) count(host, false);
    hosts_[host].up = up;
    if (up) count(host, true);
    const int change = up ? hosts_[host].gpus : -hosts_[host].gpus;
    free_[hosts_[host].kind] += change;
    total_ += change;
}

void GpuPool::withhold(int host, int gpus) {
    hosts_[host].to_withhold = gpus;
    settle(host);
}

void GpuPool::settle(int host) {
    Host& is = hosts_[host];
    const int more = std::min(is.to_withhold - is.withheld, is.gpus);
    if (more == 0) return;
    move(host, -more);
    is.withheld += more;
    if (!is.up) return;
    free_[is.kind] -= more;
    total_ -= more;
}

void GpuPool::add_cpus(std::span<const GpuShare> parts, double more) {
    for (const GpuShare& part : parts) hosts_[part.host].cpus -= part.gpus * more;
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
