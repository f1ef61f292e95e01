// SPDX-License-Identifier: Apache-2.0
#include "lib/check/check_group_placement.hpp"

#include "lib/check/expected_blocks.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace tpx {
namespace {

class GroupPlacing {
public:
    explicit GroupPlacing(const Facts& facts) : facts_{facts}, t_{facts.t} {}

    std::uint64_t run() {
        find_takers();
        check_ranks();
        check_blocks();
        add_amounts();
        for (std::size_t group = 0; group < t_.group_prices.size(); ++group) check_prices(group);
        check_bound();
        return t_.group_prices.size() * takers_.size();
    }

private:
    using Ids = std::vector<std::int32_t>;

    void find_takers();
    void check_ranks() const;
    void check_blocks() const;
    void add_amounts();
    void check_prices(std::size_t group) const;
    void check_bound() const;
    std::uint64_t room(std::uint32_t host) const { return facts_.devices[host] / t_.group; }

    const Facts& facts_;
    const HostTables& t_;
    std::vector<std::uint32_t> takers_;                     // hosts that may get groups
    std::uint64_t most_ = 0;                                // the most groups that fit on one of them
    std::map<std::pair<Ids, Ids>, std::uint64_t> amounts_;  // bytes that these takers hold and these groups need
    std::vector<std::vector<decltype(amounts_)::const_iterator>> needs_;  // of each group
};

// Hosts with room for a group; spare hosts only if blocks would need some.
void GroupPlacing::find_takers() {
    const std::vector<std::uint32_t> all = hosts_in_order(facts_.devices, t_.hosts.spare);
    std::vector<std::uint32_t> devices;
    for (std::uint32_t host : all) devices.push_back(facts_.devices[host]);
    const auto spares = static_cast<std::size_t>(
        std::ranges::count_if(all, [&](std::uint32_t host) { return t_.hosts.spare[host] != 0; }));
    const std::vector<std::uint64_t> sizes = expected_blocks(devices, spares, t_.new_devices.size(), t_.group);
    bool uses_spares = false;
    for (std::size_t i = 0; i < all.size(); ++i)
        uses_spares = uses_spares || (sizes[i] > 0 && t_.hosts.spare[all[i]] != 0);
    for (std::uint32_t host : all) {
        if (room(host) > 0 && (t_.hosts.spare[host] == 0 || uses_spares)) takers_.push_back(host);
    }
    for (std::uint32_t host : takers_) most_ = std::max(most_, room(host));
}

void GroupPlacing::check_ranks() const {
    Ids devices = t_.new_devices;
    std::ranges::sort(devices);
    if (std::ranges::adjacent_find(devices) != devices.end()) throw failure("ranks/new_device: a device has two ranks");
    const std::size_t groups = t_.new_devices.size() / t_.group;
    if (t_.new_devices.size() % t_.group != 0 || t_.group_prices.size() != groups)
        throw failure("tp_groups: {} prices for {} ranks in groups of {}", t_.group_prices.size(),
                      t_.new_devices.size(), t_.group);
}

void GroupPlacing::check_blocks() const {
    for (std::size_t b = 0; b < t_.blocks.begin.size(); ++b) {
        const std::uint32_t host = t_.blocks.host[b];
        if (t_.blocks.begin[b] % t_.group != 0 || t_.blocks.end[b] % t_.group != 0 || t_.blocks.price[b] != 0)
            throw failure("block {}: not of whole TP groups, or with a price", b);
        if (std::ranges::find(takers_, host) == takers_.end())
            throw failure("block {}: host '{}' takes no block", b, t_.hosts.name[host]);
        for (std::uint32_t rank = t_.blocks.begin[b]; rank < t_.blocks.end[b]; ++rank) {
            if (facts_.new_host[rank] != static_cast<std::int32_t>(host))
                throw failure("new rank {}: on host '{}', its block on '{}'", rank,
                              t_.hosts.name[static_cast<std::size_t>(facts_.new_host[rank])], t_.hosts.name[host]);
        }
    }
}

void GroupPlacing::add_amounts() {
    for (std::uint32_t parcel = 0; parcel < facts_.parcels(); ++parcel) {
        Ids holders;
        Ids groups;
        for (std::int32_t host : facts_.holding(parcel)) {
            if (std::ranges::find(takers_, static_cast<std::uint32_t>(host)) != takers_.end()) holders.push_back(host);
        }
        for (std::int32_t rank : facts_.needers(parcel)) {
            const auto group = static_cast<std::int32_t>(static_cast<std::uint64_t>(rank) / t_.group);
            if (groups.empty() || groups.back() != group) groups.push_back(group);
        }
        amounts_[{std::move(holders), std::move(groups)}] += t_.parcels.bytes[parcel];
    }
    needs_.resize(t_.group_prices.size());
    for (auto amount = amounts_.cbegin(); amount != amounts_.cend(); ++amount) {
        for (std::int32_t group : amount->first.second) needs_[static_cast<std::size_t>(group)].push_back(amount);
    }
}

// A group pays for bytes that its host does not hold: its share of them if as many groups as possible are on one host.
void GroupPlacing::check_prices(std::size_t group) const {
    std::int64_t needed = 0;
    std::map<std::int32_t, std::int64_t> held;
    for (const auto& amount : needs_[group]) {
        const auto& [holders, groups] = amount->first;
        const auto part = static_cast<std::int64_t>(amount->second / std::min<std::uint64_t>(groups.size(), most_));
        needed += part;
        for (std::int32_t host : holders) held[host] += part;
    }
    for (std::uint32_t host : takers_) {
        const auto found = held.find(static_cast<std::int32_t>(host));
        const std::int64_t cost = needed - (found == held.end() ? 0 : found->second);
        if (t_.group_prices[group] + t_.hosts.price[host] > cost)
            throw failure("TP group {} on host '{}': pays {} bytes, the prices add up to {}", group,
                          t_.hosts.name[host], cost, t_.group_prices[group] + t_.hosts.price[host]);
    }
}

void GroupPlacing::check_bound() const {
    __int128 shared = 0;
    for (std::int64_t price : t_.group_prices) shared += price;
    for (std::uint32_t host = 0; host < facts_.hosts(); ++host) {
        if (t_.hosts.price[host] > 0)
            throw failure("host '{}': a price of {}", t_.hosts.name[host], t_.hosts.price[host]);
        shared += static_cast<__int128>(t_.hosts.price[host]) * static_cast<__int128>(room(host));
    }
    std::uint64_t overflowing = 0;
    for (const auto& [sets, bytes] : amounts_) {
        std::uint64_t places = 0;
        for (std::int32_t host : sets.first) places += room(static_cast<std::uint32_t>(host));
        const std::uint64_t outside = sets.second.size() > places ? sets.second.size() - places : 0;
        overflowing += bytes * ((outside + most_ - 1) / most_);
    }
    const __int128 bound = std::max<__int128>(shared, overflowing);
    if (t_.group_bound > bound || t_.group_bound > t_.crossing)
        throw failure("group_bound: {} bytes are stored, {} cross and the prices prove {}", t_.group_bound, t_.crossing,
                      static_cast<std::int64_t>(bound));
}

}  // namespace

std::uint64_t check_group_placement(const Facts& facts) { return GroupPlacing{facts}.run(); }

}  // namespace tpx
