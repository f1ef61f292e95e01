// SPDX-License-Identifier: Apache-2.0
#include "lib/change/senders.hpp"

#include "lib/change/demand_groups.hpp"
#include "lib/solve/max_flow.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

// Within T seconds, a NIC sends T * rate bytes, so the least T is found by maximum flows. Demands with the same senders
// are one node, with arcs to the NICs of holders and relays, and through the disks of readers to their NICs. If not all
// bytes fit, a minimum cut shows bytes that need longer, and their time is the next T to try (Dinkelbach 1967). T only
// grows, each cut is tighter than the one before, and the last one proves T.

namespace tpx {
namespace {

using Seconds = long double;

class SenderChoice {
public:
    SenderChoice(const RankSets& sets, std::span<const Demand> demands, std::span<const SendRate> rates)
        : sets_{sets},
          demands_{demands},
          rates_{rates},
          hosts_{static_cast<std::uint32_t>(rates.size())},
          nic_load_(hosts_),
          disk_load_(hosts_) {
        for (std::uint32_t h = 0; h < hosts_; ++h) disk_load_[h] = rates[h].disk > 0 ? rates[h].disk_load : 0;
        group();
    }

    ChosenSenders run() {
        start();
        scale_ = fraction_bits();
        MaxFlow fine = network();
        while (grow(fine) < total_ << scale_) tighten(fine);
        complete();
        slack_ = (slack_ >> scale_) + (slack_ == 0 ? 0 : 1);
        scale_ = 0;
        MaxFlow whole = network();
        allow_relays(whole, false);
        grow(whole);
        allow_relays(whole, true);
        whole.solve();
        return {divide(whole), std::move(best_)};
    }

private:
    static constexpr std::uint32_t source = 0;
    static constexpr std::uint32_t sink = 1;
    std::uint32_t nic(std::uint32_t host) const { return 2 + host; }
    std::uint32_t disk(std::uint32_t host) const { return 2 + hosts_ + host; }
    // The first arcs are those from NICs to the sink, then those from disks to NICs.
    std::uint32_t nic_arc(std::uint32_t host) const { return host; }
    std::uint32_t disk_arc(std::uint32_t host) const { return hosts_ + host; }
    std::uint32_t node(std::size_t group) const { return 2 + 2 * hosts_ + static_cast<std::uint32_t>(group); }
    bool reads(std::uint32_t host) const { return rates_[host].disk > 0; }

    void group();
    void load(std::uint32_t host, bool reads_it, std::uint64_t bytes);
    void start();
    int fraction_bits() const;
    MaxFlow network();
    void allow_relays(MaxFlow& flow, bool allowed) const;
    std::uint64_t grow(MaxFlow& flow) const;
    std::int64_t room(double rate, std::uint64_t load) const;
    void tighten(const MaxFlow& flow);
    bool try_bound(SendingBound bound);
    void complete();
    std::vector<std::vector<SenderShare>> divide(const MaxFlow& flow) const;
    std::vector<SenderShare> shares(const MaxFlow& flow, std::size_t group) const;

    const RankSets& sets_;
    std::span<const Demand> demands_;
    std::span<const SendRate> rates_;
    std::uint32_t hosts_;
    std::vector<std::uint64_t> nic_load_;   // bytes that only this host can send
    std::vector<std::uint64_t> disk_load_;  // bytes of these that are read from disk, and all other bytes that are read
    std::vector<DemandGroup> groups_;
    std::vector<std::uint32_t> first_arcs_;  // of each group, the first arc to its senders: readers, holders, relays
    std::vector<std::optional<std::uint32_t>> only_;  // of each demand, the only host that can send it
    std::uint64_t total_ = 0;                         // bytes of demands with several senders
    Seconds seconds_ = 0;
    int scale_ = 0;  // flows are in units of 2^-scale_ bytes
    std::uint64_t slack_ = 0;
    SendingBound best_;
};

void SenderChoice::group() {
    GroupedDemands grouped = group_demands(sets_, demands_);
    groups_ = std::move(grouped.groups);
    only_ = std::move(grouped.only);
    for (std::size_t d = 0; d < demands_.size(); ++d)
        if (only_[d]) load(*only_[d], !sets_[demands_[d].readers].empty(), demands_[d].bytes);
    for (const DemandGroup& group : groups_) total_ += group.bytes;
    first_arcs_.resize(groups_.size());
}

void SenderChoice::load(std::uint32_t host, bool reads_it, std::uint64_t bytes) {
    nic_load_[host] += bytes;
    if (reads_it && reads(host)) disk_load_[host] += bytes;
}

// Finds the bounds that need no flow: those of each host alone, and of the senders of each group of demands.
void SenderChoice::start() {
    for (std::uint32_t h = 0; h < hosts_; ++h) {
        try_bound({{h}, {}, nic_load_[h], 0});
        if (reads(h)) try_bound({{}, {h}, disk_load_[h], 0});
    }
    for (const DemandGroup& group : groups_) {
        SendingBound bound{{}, {}, group.bytes, 0};
        for (std::uint32_t set : group.sets)
            bound.hosts.insert(bound.hosts.end(), sets_[set].begin(), sets_[set].end());
        std::ranges::sort(bound.hosts);
        for (std::uint32_t host : bound.hosts) bound.bytes += nic_load_[host];
        try_bound(std::move(bound));
    }
}

// Keeps `bound` if it is the tightest so far.
bool SenderChoice::try_bound(SendingBound bound) {
    Seconds rate = 0;
    for (std::uint32_t host : bound.hosts) rate += rates_[host].nic;
    for (std::uint32_t host : bound.disks) rate += rates_[host].disk;
    const Seconds seconds = static_cast<Seconds>(bound.bytes) / rate;
    if (bound.bytes == 0 || seconds <= seconds_) return false;
    seconds_ = seconds;
    best_ = std::move(bound);
    best_.seconds = static_cast<double>(seconds);
    return true;
}

// The search for the least time counts fractions of bytes, so that rounding does not hide that a cut is tighter.
int SenderChoice::fraction_bits() const {
    static constexpr int most = 20;
    const std::uint64_t all = std::accumulate(nic_load_.begin(), nic_load_.end(), total_) +
                              std::accumulate(disk_load_.begin(), disk_load_.end(), std::uint64_t{0});
    return std::clamp(60 - static_cast<int>(std::bit_width(all)), 0, most);
}

MaxFlow SenderChoice::network() {
    MaxFlow flow{node(groups_.size()), source, sink};
    for (std::uint32_t h = 0; h < hosts_; ++h) flow.add_arc(nic(h), sink, 0);
    for (std::uint32_t h = 0; h < hosts_; ++h) flow.add_arc(disk(h), nic(h), 0);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
        const auto bytes = static_cast<std::int64_t>(groups_[g].bytes << scale_);
        first_arcs_[g] = flow.add_arc(source, node(g), bytes) + 1;
        for (std::int32_t host : sets_[groups_[g].sets[0]]) {
            const auto h = static_cast<std::uint32_t>(host);
            flow.add_arc(node(g), reads(h) ? disk(h) : nic(h), bytes);
        }
        for (std::uint32_t set : {groups_[g].sets[1], groups_[g].sets[2]}) {
            for (std::int32_t host : sets_[set]) flow.add_arc(node(g), nic(static_cast<std::uint32_t>(host)), bytes);
        }
    }
    return flow;
}

void SenderChoice::allow_relays(MaxFlow& flow, bool allowed) const {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
        const auto [readers, holders, relays] = groups_[g].sets;
        auto arc = first_arcs_[g] + static_cast<std::uint32_t>(sets_[readers].size() + sets_[holders].size());
        const auto bytes = static_cast<std::int64_t>(groups_[g].bytes << scale_);
        for (std::size_t i = 0; i < sets_[relays].size(); ++i) flow.set_capacity(arc++, allowed ? bytes : 0);
    }
}

// The capacity that `load` leaves of the bytes that `rate` allows in the current T.
std::int64_t SenderChoice::room(double rate, std::uint64_t load) const {
    static constexpr Seconds most = 1ll << 62;
    const Seconds bytes = seconds_ * rate * static_cast<Seconds>(1ll << scale_);
    const auto whole = static_cast<std::uint64_t>(std::min(most, std::ceil(bytes))) + slack_;
    return static_cast<std::int64_t>(whole - std::min(whole, load << scale_));
}

// Returns how much of the demands with several senders can be sent in the current T.
std::uint64_t SenderChoice::grow(MaxFlow& flow) const {
    for (std::uint32_t h = 0; h < hosts_; ++h) {
        flow.set_capacity(nic_arc(h), room(rates_[h].nic, nic_load_[h]));
        if (reads(h)) flow.set_capacity(disk_arc(h), room(rates_[h].disk, disk_load_[h]));
    }
    flow.solve();
    std::int64_t sent = 0;
    for (std::uint32_t h = 0; h < hosts_; ++h) sent += flow.flow(nic_arc(h));
    return static_cast<std::uint64_t>(sent);
}

void SenderChoice::tighten(const MaxFlow& flow) {
    SendingBound bound;
    for (std::uint32_t h = 0; h < hosts_; ++h) {
        if (flow.reached(nic(h))) {
            bound.hosts.push_back(h);
            bound.bytes += nic_load_[h];
        } else if (flow.reached(disk(h))) {
            bound.disks.push_back(h);
            bound.bytes += disk_load_[h];
        }
    }
    for (std::size_t g = 0; g < groups_.size(); ++g) bound.bytes += flow.reached(node(g)) ? groups_[g].bytes : 0;
    // If the cut is not tighter than the last one, the flow fell short only because of rounding.
    if (!try_bound(std::move(bound))) ++slack_;
}

// Counts the bytes that the best bound confines again: there may be more than were known when its cut was found.
void SenderChoice::complete() {
    std::vector<bool> nics(hosts_);
    std::vector<bool> disks(hosts_);
    SendingBound bound = best_;
    bound.bytes = 0;
    for (std::uint32_t host : bound.hosts) {
        nics[host] = true;
        bound.bytes += nic_load_[host];
    }
    for (std::uint32_t host : bound.disks) {
        disks[host] = true;
        bound.bytes += disk_load_[host];
    }
    for (const DemandGroup& group : groups_) {
        const auto is_named = [&](std::int32_t host) { return bool{nics[host]}; };
        const bool confined =
            std::ranges::all_of(sets_[group.sets[0]], [&](std::int32_t host) { return nics[host] || disks[host]; }) &&
            std::ranges::all_of(sets_[group.sets[1]], is_named) && std::ranges::all_of(sets_[group.sets[2]], is_named);
        bound.bytes += confined ? group.bytes : 0;
    }
    try_bound(std::move(bound));
}

std::vector<SenderShare> SenderChoice::shares(const MaxFlow& flow, std::size_t group) const {
    std::vector<SenderShare> shares;
    std::uint32_t arc = first_arcs_[group];
    for (std::uint32_t set : groups_[group].sets) {
        for (std::int32_t host : sets_[set]) {
            const auto bytes = static_cast<std::uint64_t>(flow.flow(arc++));
            if (bytes != 0) shares.push_back({static_cast<std::uint32_t>(host), bytes});
        }
    }
    return shares;
}

// The demands of a group use up the shares of its senders in order.
std::vector<std::vector<SenderShare>> SenderChoice::divide(const MaxFlow& flow) const {
    std::vector<std::vector<SenderShare>> result(demands_.size());
    for (std::size_t d = 0; d < demands_.size(); ++d) {
        if (only_[d]) result[d].push_back({*only_[d], demands_[d].bytes});
    }
    for (std::size_t g = 0; g < groups_.size(); ++g) {
        std::vector<SenderShare> sent = shares(flow, g);
        auto share = sent.begin();
        for (std::uint32_t d : groups_[g].demands) {
            for (std::uint64_t open = demands_[d].bytes; open != 0;) {
                const std::uint64_t bytes = std::min(open, share->bytes);
                result[d].push_back({share->host, bytes});
                open -= bytes;
                share->bytes -= bytes;
                if (share->bytes == 0) ++share;
            }
        }
    }
    return result;
}

}  // namespace

ChosenSenders choose_senders(const RankSets& sets, std::span<const Demand> demands, std::span<const SendRate> rates) {
    return SenderChoice{sets, demands, rates}.run();
}

}  // namespace tpx
