// SPDX-License-Identifier: Apache-2.0
#include "lib/change/relay_trees.hpp"

#include <algorithm>
#include <deque>
#include <limits>

// Laid end to end, the shares of k copies form k layers of the bytes, so each byte has one sender in every layer. A
// host sends a byte once for each layer in which it is the sender. Between two consecutive ends of shares these numbers
// do not change, so one tree serves all bytes there.

namespace tpx {
namespace {

constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
using Nodes = std::vector<std::uint32_t>;

class RelayTrees {
public:
    explicit RelayTrees(const Multicast& multicast) : multicast_{multicast} {
        for (const Multicast::HostGroup& group : multicast.groups) {
            for (const auto* hosts : {&group.holders, &group.readers, &group.needers})
                hosts_.insert(hosts_.end(), hosts->begin(), hosts->end());
        }
        std::ranges::sort(hosts_);
        for (const Multicast::HostGroup& group : multicast.groups) {
            groups_.push_back({numbers(group.holders), numbers(group.needers)});
            const Nodes readers = numbers(group.readers);
            groups_.back().holders.insert(groups_.back().holders.end(), readers.begin(), readers.end());
            cut(group.first);
            cut(group.rest);
        }
        cut(multicast.entry);
        cut(multicast.entries);
        cuts_.push_back(0);
        std::ranges::sort(cuts_);
        cuts_.erase(std::ranges::unique(cuts_).begin(), cuts_.end());
    }

    std::vector<RelayTree> run() {
        std::vector<RelayTree> trees;
        for (std::size_t i = 0; i < cuts_.size(); ++i) {
            const std::uint64_t end = i + 1 == cuts_.size() ? multicast_.bytes : cuts_[i + 1];
            std::vector<Hop> hops = tree_at(cuts_[i]);
            if (!trees.empty() && trees.back().hops == hops)
                trees.back().end = end;
            else
                trees.push_back({cuts_[i], end, std::move(hops)});
        }
        return trees;
    }

private:
    // Hosts are numbered by their positions in `hosts_`.
    struct RelayGroup {
        Nodes holders;  // and readers
        Nodes needers;
    };

    // A host or group that receives the bytes once, at `host`; then all `senders` can forward them.
    struct Receiver {
        std::uint32_t host;
        Nodes senders;
        std::uint32_t copies;  // copies that they send
    };

    Nodes numbers(const std::vector<std::int32_t>& hosts) const {
        Nodes numbers;
        for (std::int32_t host : hosts)
            numbers.push_back(static_cast<std::uint32_t>(std::ranges::lower_bound(hosts_, host) - hosts_.begin()));
        return numbers;
    }
    void cut(const std::vector<SenderShare>& shares) {
        std::uint64_t end = 0;
        for (const SenderShare& share : shares) cuts_.push_back((end += share.bytes) % multicast_.bytes);
    }
    void count(const std::vector<SenderShare>& shares, std::uint64_t byte, Nodes& copies) const;
    void connect(const Nodes& roots, std::vector<Receiver> receivers, const Nodes& copies);
    std::uint32_t connect_group(const RelayGroup& group, const Nodes& copies);
    std::vector<Hop> tree_at(std::uint64_t byte);
    std::uint32_t level(std::uint32_t host);

    const Multicast& multicast_;
    std::vector<std::int32_t> hosts_;  // ascending
    std::vector<RelayGroup> groups_;
    std::vector<std::uint64_t> cuts_;  // positions at which the sender of a layer may change, ascending, including 0
    Nodes sources_;                    // of each host that receives
    Nodes levels_;                     // of each host: hops from a holder; none: not computed yet
};

// Adds to `copies` how often each host sends `byte`.
void RelayTrees::count(const std::vector<SenderShare>& shares, std::uint64_t byte, Nodes& copies) const {
    const auto layers_before = [&](std::uint64_t end) {
        return end <= byte ? 0 : (end - byte - 1) / multicast_.bytes + 1;
    };
    std::uint64_t begin = 0;
    for (const SenderShare& share : shares) {
        const std::uint64_t end = begin + share.bytes;
        const auto host = std::ranges::lower_bound(hosts_, static_cast<std::int32_t>(share.host)) - hosts_.begin();
        copies[static_cast<std::size_t>(host)] += static_cast<std::uint32_t>(layers_before(end) - layers_before(begin));
        begin = end;
    }
}

// Gives each receiver a source: a root or a sender of an earlier receiver that has a copy left to send. Receivers that
// send most come first, so a source always exists (see multicast.cpp) and the tree is shallow. Without roots, the first
// receiver gets no source.
void RelayTrees::connect(const Nodes& roots, std::vector<Receiver> receivers, const Nodes& copies) {
    std::deque<std::uint32_t> open;  // hosts, once for each copy that they have left to send
    for (std::uint32_t host : roots) open.insert(open.end(), copies[host], host);
    std::ranges::stable_sort(receivers, std::ranges::greater{}, &Receiver::copies);
    for (const Receiver& receiver : receivers) {
        if (!open.empty()) {
            sources_[receiver.host] = open.front();
            open.pop_front();
        }
        for (std::uint32_t host : receiver.senders) open.insert(open.end(), copies[host], host);
    }
}

// Connects the hosts of a group; returns the host through which the bytes enter it, or `none` if it has a holder.
std::uint32_t RelayTrees::connect_group(const RelayGroup& group, const Nodes& copies) {
    std::vector<Receiver> receivers;
    for (std::uint32_t host : group.needers) receivers.push_back({host, {host}, copies[host]});
    connect(group.holders, std::move(receivers), copies);
    if (!group.holders.empty()) return none;
    return *std::ranges::find(group.needers, none, [&](std::uint32_t host) { return sources_[host]; });
}

// Builds trees inside groups, and one between groups.
std::vector<Hop> RelayTrees::tree_at(std::uint64_t byte) {
    sources_.assign(hosts_.size(), none);
    Nodes inside(hosts_.size());
    Nodes between(hosts_.size());
    for (const Multicast::HostGroup& group : multicast_.groups) {
        count(group.first, byte, inside);
        count(group.rest, byte, inside);
    }
    count(multicast_.entry, byte, between);
    count(multicast_.entries, byte, between);
    Nodes roots;
    std::vector<Receiver> entered;
    for (const RelayGroup& group : groups_) {
        const std::uint32_t entry = connect_group(group, inside);
        if (entry == none) {
            roots.insert(roots.end(), group.holders.begin(), group.holders.end());
            roots.insert(roots.end(), group.needers.begin(), group.needers.end());
            continue;
        }
        entered.push_back({entry, group.needers, 0});
        for (std::uint32_t host : group.needers) entered.back().copies += between[host];
    }
    connect(roots, std::move(entered), between);
    levels_.assign(hosts_.size(), none);
    std::vector<Hop> hops;
    for (std::uint32_t host = 0; host < hosts_.size(); ++host) {
        if (sources_[host] != none)
            hops.push_back({static_cast<std::uint32_t>(hosts_[sources_[host]]),
                            static_cast<std::uint32_t>(hosts_[host]), level(sources_[host])});
    }
    std::ranges::stable_sort(hops, {}, &Hop::depth);
    return hops;
}

std::uint32_t RelayTrees::level(std::uint32_t host) {
    Nodes path;
    while (levels_[host] == none && sources_[host] != none) {
        path.push_back(host);
        host = sources_[host];
    }
    if (sources_[host] == none) levels_[host] = 0;
    std::uint32_t level = levels_[host];
    while (!path.empty()) {
        levels_[path.back()] = ++level;
        path.pop_back();
    }
    return level;
}

}  // namespace

std::vector<RelayTree> relay_trees(const Multicast& multicast) { return RelayTrees{multicast}.run(); }

}  // namespace tpx
