// SPDX-License-Identifier: Apache-2.0
#include "cmd/profile/hardware_visits.hpp"

#include <algorithm>
#include <map>
#include <span>

namespace tpx::cli {
namespace {

// Combines the results of `value` for all visits.
template <class Visit, class Value>
MeasuredValue over(const std::vector<Visit>& visits, Value&& value) {
    std::vector<MeasuredValue> all;
    for (const Visit& visit : visits) all.push_back(value(visit));
    return combine(all);
}

GpuHardware combine_gpu(const std::vector<HostHardware>& visits, std::size_t gpu) {
    GpuHardware all = visits.front().gpus[gpu];
    for (const auto& quantity : gpu_quantities)
        all.*quantity.value = over(visits, [&](const HostHardware& visit) { return visit.gpus[gpu].*quantity.value; });
    for (std::size_t peer = 0; peer < all.peers.size(); ++peer)
        all.peers[peer] = over(visits, [&](const HostHardware& visit) {
            const std::vector<MeasuredValue>& peers = visit.gpus[gpu].peers;  // empty if a later visit failed
            return peer < peers.size() ? peers[peer] : MeasuredValue{};
        });
    return all;
}

// Combines all visits of each link; links are identified by their ends.
std::map<std::pair<int, int>, LinkHardware> combine_links(std::span<const std::vector<LinkRates>> visits) {
    std::map<std::pair<int, int>, std::vector<const LinkRates*>> seen;
    for (const std::vector<LinkRates>& visit : visits)
        for (const LinkRates& link : visit) seen[{link.from, link.to}].push_back(&link);
    std::map<std::pair<int, int>, LinkHardware> all;
    for (const auto& [ends, links] : seen)
        all[ends] = {over(links, [](const LinkRates* link) { return link->rate; }),
                     over(links, [](const LinkRates* link) { return link->latency; })};
    return all;
}

// The second-best rate of each link in all visits; the best rate if there are at most two visits.
std::map<std::pair<int, int>, double> second_best(std::span<const std::vector<LinkRates>> visits) {
    std::map<std::pair<int, int>, std::vector<double>> seen;
    for (const std::vector<LinkRates>& visit : visits)
        for (const LinkRates& link : visit) seen[{link.from, link.to}].push_back(link.rate.median);
    std::map<std::pair<int, int>, double> rates;
    for (auto& [ends, all] : seen) {
        std::ranges::sort(all, std::ranges::greater{});
        rates[ends] = all[all.size() > 2 ? 1 : 0];
    }
    return rates;
}

PairClass class_of_ranks(const RankHardware& a, const RankHardware& b) {
    if (a.host == b.host) return a.socket >= 0 && a.socket == b.socket ? PairClass::same_socket : PairClass::same_host;
    return !a.switch_group.empty() && a.switch_group == b.switch_group ? PairClass::same_switch : PairClass::other;
}

}  // namespace

HostHardware combine_host(const std::vector<HostHardware>& visits) {
    HostHardware all = visits.front();
    for (const auto& quantity : host_quantities)
        all.*quantity.value = over(visits, [&](const HostHardware& visit) { return visit.*quantity.value; });
    for (std::size_t gpu = 0; gpu < all.gpus.size(); ++gpu) all.gpus[gpu] = combine_gpu(visits, gpu);
    return all;
}

void add_links(Hardware& hardware, const Visits& visits, const JobHardware& places) {
    for (const auto& [ends, link] : combine_links(visits.same_socket))
        if (ends.first < ends.second) hardware.hosts[places.host_of[ends.first]].same_socket = link;
    for (const auto& [ends, link] : combine_links(visits.same_host))
        if (ends.first < ends.second) hardware.hosts[places.host_of[ends.first]].same_host = link;
    if (visits.links.empty()) return;
    hardware.links.assign(hardware.hosts.size(), std::vector<LinkHardware>(hardware.hosts.size()));
    for (const auto& [ends, link] : combine_links(visits.links))
        hardware.links[places.host_of[ends.first]][places.host_of[ends.second]] = link;
    // Other traffic may slow down a link in most visits, and a burst may speed up one: the second-best rates show what
    // NICs can do.
    Hardware good = hardware;
    for (const auto& [ends, rate] : second_best(visits.links))
        good.links[places.host_of[ends.first]][places.host_of[ends.second]].rate.median = rate;
    find_nics(good);
    for (std::size_t i = 0; i < good.hosts.size(); ++i) hardware.hosts[i].nic = good.hosts[i].nic;
}

NcclPairs nccl_pairs(const JobHardware& places) {
    const std::vector<int> members = places.ranks_with_gpus();
    NcclPairs found;
    for (std::size_t a = 0; a < members.size(); ++a)
        for (std::size_t b = a + 1; b < members.size() && found.kinds.size() < pair_class_keys.size(); ++b) {
            const PairClass kind = class_of_ranks(places.ranks[members[a]], places.ranks[members[b]]);
            if (std::ranges::find(found.kinds, kind) != found.kinds.end()) continue;
            found.kinds.push_back(kind);
            found.pairs.emplace_back(static_cast<int>(a), static_cast<int>(b));
        }
    return found;
}

void add_nccl(Hardware& hardware, const Visits& visits, const JobHardware& places) {
    if (visits.nccl.empty()) return;
    const NcclPairs asked = nccl_pairs(places);
    hardware.nccl.gpus = static_cast<int>(places.ranks_with_gpus().size());
    hardware.nccl.all_reduce = over(visits.nccl, [](const NcclRates& visit) { return visit.all_reduce; });
    for (std::size_t i = 0; i < asked.kinds.size(); ++i)
        hardware.nccl.between[static_cast<std::size_t>(asked.kinds[i])] =
            over(visits.nccl, [&](const NcclRates& visit) { return visit.pairs[i]; });
}

}  // namespace tpx::cli
