// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/transfers.hpp"

#include "lib/plan/fan.hpp"
#include "lib/plan/fan_out.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace tpx {
namespace {

// Parcels that the same hosts hold and the same hosts lack, laid end to end.
struct Bundle {
    std::uint32_t holders;  // sets of hosts
    std::uint32_t missing;
    std::vector<std::uint32_t> parcels;
    std::vector<std::uint64_t> ends;  // of the parcels' bytes in the bundle

    std::uint64_t bytes() const { return ends.back(); }
};

class Choosing {
public:
    Choosing(const Parcels& parcels, std::span<const Host> hosts, const Whereabouts& whereabouts)
        : parcels_{parcels}, whereabouts_{whereabouts} {
        std::map<std::string, std::uint32_t> groups;
        for (const Host& host : hosts)
            group_of_.push_back(
                groups.try_emplace(host.switch_group, static_cast<std::uint32_t>(groups.size())).first->second);
    }

    Transfers run(std::span<const SendRate> rates) {
        bundle();
        for (Bundle& bundle : bundles_) demand(bundle);
        Sending sending = choose_senders(sets_, demands_, rates);
        auto shares = sending.shares.begin();
        auto fan = fans_.begin();
        for (const Bundle& bundle : bundles_) {
            if (sets_[bundle.missing].size() == 1) {
                single(bundle, *shares++);
                continue;
            }
            for_each_demand(*fan,
                            [&](auto&, auto&, auto, std::vector<Share>& chosen) { chosen = std::move(*shares++); });
            for (const Hop& hop : fan_out(*fan++)) add(bundle, hop);
        }
        return {std::move(list_), std::move(sending.bound)};
    }

private:
    void bundle();
    void demand(const Bundle& bundle);
    void single(const Bundle& bundle, std::span<const Share> shares);
    void add(const Bundle& bundle, const Hop& hop);
    void read(std::uint32_t parcel, std::span<const std::int32_t> hosts);

    const Parcels& parcels_;
    const Whereabouts& whereabouts_;
    std::vector<std::uint32_t> group_of_;  // switch group of each host
    RankSets sets_;                        // of hosts
    std::vector<Bundle> bundles_;
    std::vector<Fan> fans_;  // of bundles that several hosts lack, in their order
    std::vector<Demand> demands_;
    std::vector<Transfer> list_;
};

void Choosing::bundle() {
    std::unordered_map<std::uint64_t, std::uint32_t> by_need;     // holders and needers to sets_
    std::unordered_map<std::uint64_t, std::uint32_t> by_missing;  // holders and those who lack it to bundles_
    std::vector<std::int32_t> missing;
    for (std::uint32_t p = 0; p < parcels_.parcels.size(); ++p) {
        const Parcel& parcel = parcels_.parcels[p];
        const std::uint64_t holding = std::uint64_t{whereabouts_.holding.set[parcel.holders]} << 32;
        const auto holders = whereabouts_.holding[parcel.holders];
        const auto [need, is_new] = by_need.try_emplace(holding | whereabouts_.needing.set[parcel.needers]);
        if (is_new) {
            missing.clear();
            std::ranges::set_difference(whereabouts_.needing[parcel.needers], holders, std::back_inserter(missing));
            need->second = sets_.add(missing);
        }
        const auto lacking = sets_[need->second];
        if (holders.empty()) read(p, lacking);
        if (holders.empty() || lacking.empty()) continue;
        const auto [found, is_first] =
            by_missing.try_emplace(holding | need->second, static_cast<std::uint32_t>(bundles_.size()));
        if (is_first) bundles_.push_back({sets_.add(holders), need->second, {}, {}});
        Bundle& bundle = bundles_[found->second];
        bundle.ends.push_back((bundle.ends.empty() ? 0 : bundle.bytes()) + parcel.bytes);
        bundle.parcels.push_back(p);
    }
}

void Choosing::read(std::uint32_t parcel, std::span<const std::int32_t> hosts) {
    for (std::int32_t host : hosts)
        list_.push_back({parcel, from_storage, static_cast<std::uint32_t>(host), 0, parcels_.parcels[parcel].bytes, 0});
}

// A bundle that one host lacks, as most are, needs no fan.
void Choosing::demand(const Bundle& bundle) {
    const std::vector<std::int32_t> holders{sets_[bundle.holders].begin(), sets_[bundle.holders].end()};
    const std::vector<std::int32_t> missing{sets_[bundle.missing].begin(), sets_[bundle.missing].end()};
    if (missing.size() == 1) {
        std::vector<std::int32_t> near;
        std::ranges::copy_if(holders, std::back_inserter(near),
                             [&](std::int32_t host) { return group_of_[host] == group_of_[missing.front()]; });
        demands_.push_back({sets_.add(near.empty() ? holders : near), sets_.add({}), bundle.bytes()});
        return;
    }
    fans_.push_back(make_fan(bundle.bytes(), holders, missing, group_of_));
    for_each_demand(fans_.back(), [&](auto& from, auto& relays, std::uint64_t copies, auto&) {
        demands_.push_back({sets_.add(from), sets_.add(relays), copies * bundle.bytes()});
    });
}

void Choosing::single(const Bundle& bundle, std::span<const Share> shares) {
    std::uint64_t begin = 0;
    for (const Share& share : shares) {
        add(bundle,
            {share.host, static_cast<std::uint32_t>(sets_[bundle.missing].front()), begin, begin + share.bytes});
        begin += share.bytes;
    }
}

// Cuts a hop at the ends of parcels.
void Choosing::add(const Bundle& bundle, const Hop& hop) {
    auto i = static_cast<std::size_t>(std::ranges::upper_bound(bundle.ends, hop.begin) - bundle.ends.begin());
    for (std::uint64_t begin = hop.begin; begin < hop.end; ++i) {
        const std::uint64_t first = i == 0 ? 0 : bundle.ends[i - 1];
        const std::uint64_t end = std::min(hop.end, bundle.ends[i]);
        list_.push_back({bundle.parcels[i], hop.from, hop.to, begin - first, end - first, 0});
        begin = end;
    }
}

}  // namespace

Transfers choose_transfers(const Parcels& parcels, std::span<const Host> hosts, const Whereabouts& whereabouts,
                           std::span<const SendRate> rates) {
    return Choosing{parcels, hosts, whereabouts}.run(rates);
}

}  // namespace tpx
