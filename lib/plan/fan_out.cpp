// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/fan_out.hpp"

#include "lib/plan/forest.hpp"

#include <algorithm>
#include <deque>

// Laid end to end, the shares of k copies are k layers of the bytes, so that at each byte every layer has one sender.
// For the first byte trees are grown in which each host has as many children as layers: inside groups over hosts, and
// between groups over hosts and the groups that are entered. Going on through the bytes, a sender of a layer follows
// another here and there, and only one or two children change their parents.

namespace tpx {
namespace {

constexpr std::uint32_t none = Forest::none;
using Nodes = std::vector<std::uint32_t>;

class FanOut {
public:
    explicit FanOut(const Fan& fan)
        : fan_{fan}, hosts_{all_hosts(fan)}, inside_{size()}, between_{size() + fan.groups.size()} {
        group_of_.resize(size());
        for (std::uint32_t g = 0; g < fan.groups.size(); ++g) add_group(fan.groups[g]);
    }

    std::vector<Hop> run() {
        for (const Group& group : groups_) grow_inside(group);
        grow_between();
        since_.assign(size(), 0);
        for (std::uint32_t host = 0; host < size(); ++host) sources_.push_back(source(host));
        settle(0);
        std::ranges::stable_sort(changes_, {}, &Change::at);
        for (std::size_t i = 0; i < changes_.size(); ++i) {
            change(changes_[i]);
            if (i + 1 == changes_.size() || changes_[i + 1].at != changes_[i].at) settle(changes_[i].at);
        }
        for (std::uint32_t host = 0; host < size(); ++host) end_hop(host, fan_.bytes);
        return std::move(hops_);
    }

private:
    // Hosts are numbered in the order of `hosts_` here.
    struct Group {
        const Fan::Group* fan;
        Nodes holders;
        Nodes needers;

        bool entered() const { return holders.empty(); }
    };

    // From byte `at` on, one more child of `to` and one less of `from`.
    struct Change {
        std::uint64_t at;
        bool inside;
        std::uint32_t from;
        std::uint32_t to;
    };

    static std::vector<std::int32_t> all_hosts(const Fan& fan) {
        std::vector<std::int32_t> hosts;
        for (const Fan::Group& group : fan.groups) {
            hosts.insert(hosts.end(), group.holders.begin(), group.holders.end());
            hosts.insert(hosts.end(), group.needers.begin(), group.needers.end());
        }
        std::ranges::sort(hosts);
        return hosts;
    }
    std::uint32_t size() const { return static_cast<std::uint32_t>(hosts_.size()); }
    std::uint32_t number(std::int32_t host) const {
        return static_cast<std::uint32_t>(std::ranges::lower_bound(hosts_, host) - hosts_.begin());
    }
    std::uint32_t name(std::uint32_t host) const { return static_cast<std::uint32_t>(hosts_[host]); }

    void add_group(const Fan::Group& fan);
    void layer(const std::vector<Share>& shares, bool inside, Nodes& degrees);
    void grow_inside(const Group& group);
    void grow_between();
    std::uint32_t source(std::uint32_t host) const;
    void change(const Change& change);
    void settle(std::uint64_t at);
    void update(std::uint32_t host, std::uint64_t at);
    void end_hop(std::uint32_t host, std::uint64_t at);

    const Fan& fan_;
    std::vector<std::int32_t> hosts_;  // ascending
    Forest inside_;                    // of hosts
    Forest between_;                   // of hosts, and of groups after them
    std::vector<Group> groups_;
    Nodes group_of_;
    Nodes roots_;  // hosts of groups that are not entered
    std::vector<Change> changes_;
    Nodes sources_;                     // of each host that receives
    std::vector<std::uint64_t> since_;  // which byte
    std::vector<Hop> hops_;
};

void FanOut::add_group(const Fan::Group& fan) {
    const auto group = static_cast<std::uint32_t>(groups_.size());
    Group& added = groups_.emplace_back(Group{&fan, {}, {}});
    for (std::int32_t host : fan.holders) added.holders.push_back(number(host));
    for (std::int32_t host : fan.needers) added.needers.push_back(number(host));
    for (std::uint32_t host : added.needers) {
        inside_.carry(host, host);
        if (added.entered()) between_.carry(host, size() + group);
    }
    for (const Nodes& nodes : {added.holders, added.needers}) {
        for (std::uint32_t host : nodes) group_of_[host] = group;
        if (!added.entered()) roots_.insert(roots_.end(), nodes.begin(), nodes.end());
    }
}

// Adds to `degrees` how many layers each host sends at the first byte, and notes the later changes.
void FanOut::layer(const std::vector<Share>& shares, bool inside, Nodes& degrees) {
    const auto layers_before = [&](std::uint64_t position) { return (position + fan_.bytes - 1) / fan_.bytes; };
    std::uint64_t position = 0;
    std::uint32_t last = none;
    for (const Share& share : shares) {
        const std::uint32_t host = number(static_cast<std::int32_t>(share.host));
        const std::uint64_t end = position + share.bytes;
        degrees[host] += static_cast<std::uint32_t>(layers_before(end) - layers_before(position));
        if (position % fan_.bytes != 0 && host != last) changes_.push_back({position % fan_.bytes, inside, last, host});
        position = end;
        last = host;
    }
}

// Needers that have most children come first: so there is always a parent that lacks a child.
void FanOut::grow_inside(const Group& group) {
    Nodes degrees(size());
    layer(group.fan->first, true, degrees);
    layer(group.fan->rest, true, degrees);
    std::deque<std::uint32_t> open;  // hosts, as often as they lack a child
    for (std::uint32_t host : group.holders) open.insert(open.end(), degrees[host], host);
    Nodes needers = group.needers;
    std::ranges::stable_sort(needers, std::ranges::greater{}, [&](std::uint32_t host) { return degrees[host]; });
    for (std::uint32_t host : needers) {
        if (!open.empty()) {
            inside_.hang(host, open.front());
            open.pop_front();
        }
        open.insert(open.end(), degrees[host], host);
    }
}

void FanOut::grow_between() {
    Nodes degrees(size());
    layer(fan_.entry, false, degrees);
    layer(fan_.entries, false, degrees);
    std::deque<std::uint32_t> open;
    for (std::uint32_t host : roots_) open.insert(open.end(), degrees[host], host);
    Nodes totals(groups_.size());
    for (std::uint32_t host = 0; host < size(); ++host) totals[group_of_[host]] += degrees[host];
    Nodes entered;
    for (std::uint32_t group = 0; group < groups_.size(); ++group) {
        if (groups_[group].entered()) entered.push_back(group);
    }
    std::ranges::stable_sort(entered, std::ranges::greater{}, [&](std::uint32_t group) { return totals[group]; });
    for (std::uint32_t group : entered) {
        between_.hang(size() + group, open.front());
        open.pop_front();
        for (std::uint32_t host : groups_[group].needers) open.insert(open.end(), degrees[host], host);
    }
}

// The host from which `host` has its bytes, or none where it holds them.
std::uint32_t FanOut::source(std::uint32_t host) const {
    const bool entry = inside_.parent(host) == none && groups_[group_of_[host]].entered();
    return entry ? between_.parent(size() + group_of_[host]) : inside_.parent(host);
}

void FanOut::change(const Change& change) {
    if (change.inside)
        inside_.pass(change.from, change.to, groups_[group_of_[change.from]].holders);
    else
        between_.pass(change.from, change.to, roots_);
}

// Ends the hops of hosts that have another source from byte `at` on.
void FanOut::settle(std::uint64_t at) {
    for (std::uint32_t host : inside_.take_hung()) update(host, at);
    for (std::uint32_t node : between_.take_hung()) {
        for (std::uint32_t host : groups_[node - size()].needers) update(host, at);
    }
}

void FanOut::update(std::uint32_t host, std::uint64_t at) {
    if (source(host) == sources_[host]) return;
    end_hop(host, at);
    sources_[host] = source(host);
    since_[host] = at;
}

void FanOut::end_hop(std::uint32_t host, std::uint64_t at) {
    if (sources_[host] != none) hops_.push_back({name(sources_[host]), name(host), since_[host], at});
}

}  // namespace

std::vector<Hop> fan_out(const Fan& fan) { return FanOut{fan}.run(); }

}  // namespace tpx
