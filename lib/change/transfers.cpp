// SPDX-License-Identifier: Apache-2.0
#include "lib/change/transfers.hpp"

#include "lib/change/fan.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

namespace tpx {
namespace {

// Parcels that the same hosts hold, read and lack, laid end to end.
struct Bundle {
    // Sets of hosts; see Fan.
    std::uint32_t holders;
    std::uint32_t readers;
    std::uint32_t missing;
    std::vector<std::uint32_t> parcels;
    std::vector<std::uint64_t> ends;  // of the parcels' bytes in the bundle

    std::uint64_t bytes() const { return ends.back(); }

    // Calls `visit` for the bytes from `begin` up to `end`, parcel by parcel; both are moved back to an end of an
    // element.
    template <class Visit>
    void for_each_range(const Parcels& all, std::uint64_t begin, std::uint64_t end, Visit&& visit) const {
        auto i = static_cast<std::size_t>(std::ranges::upper_bound(ends, begin) - ends.begin());
        for (; begin < end; ++i) {
            const std::uint64_t first = i == 0 ? 0 : ends[i - 1];
            const Parcel& parcel = all.parcels[parcels[i]];
            const ParcelRange range{parcels[i], parcel.align(begin - first),
                                    parcel.align(std::min(end, ends[i]) - first)};
            if (range.begin < range.end) visit(range);
            begin = ends[i];
        }
    }
};

class Choosing {
public:
    Choosing(const Parcels& parcels, std::span<const Host> hosts, const Whereabouts& whereabouts, StateIn state)
        : parcels_{parcels}, whereabouts_{whereabouts}, state_{state}, group_of_{switch_groups(hosts)} {}

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
                            [&](auto&&, auto, std::vector<SenderShare>& chosen) { chosen = std::move(*shares++); });
            for (RelayTree& tree : relay_trees(*fan++)) add(bundle, tree);
        }
        result_.sending = std::move(sending.bound);
        return std::move(result_);
    }

private:
    void bundle();
    std::uint32_t bundle_of(const Parcel& parcel);
    void demand(const Bundle& bundle);
    void single(const Bundle& bundle, std::span<const SenderShare> shares);
    void send(const Bundle& bundle, const Hop& hop, std::uint64_t begin, std::uint64_t end);
    void add(const Bundle& bundle, RelayTree& tree);
    void read(std::uint32_t parcel, std::span<const std::int32_t> hosts);

    const Parcels& parcels_;
    const Whereabouts& whereabouts_;
    StateIn state_;
    std::vector<std::uint32_t> group_of_;  // switch group of each host
    RankSets sets_;                        // of hosts
    std::vector<Bundle> bundles_;
    std::map<std::array<std::uint32_t, 3>, std::uint32_t> numbers_;  // of bundles, by their sets
    std::vector<Fan> fans_;  // of bundles that several hosts lack, in their order
    std::vector<Demand> demands_;
    Transfers result_;
};

void Choosing::bundle() {
    std::unordered_map<std::uint64_t, std::uint32_t> known;  // by holders and needers
    std::uint64_t last = 0;
    std::uint32_t number = 0;
    for (std::uint32_t p = 0; p < parcels_.parcels.size(); ++p) {
        const Parcel& parcel = parcels_.parcels[p];
        const std::uint64_t key =
            std::uint64_t{whereabouts_.holding.set[parcel.holders]} << 32 | whereabouts_.needing.set[parcel.needers];
        if (p == 0 || key != last) {  // parcels of several roles follow each other
            const auto [found, is_new] = known.try_emplace(key);
            if (is_new) found->second = bundle_of(parcel);
            number = found->second;
            last = key;
        }
        Bundle& bundle = bundles_[number];
        const auto missing = sets_[bundle.missing];
        if (whereabouts_.holding[parcel.holders].empty()) read(p, missing);
        bundle.ends.push_back((bundle.ends.empty() ? 0 : bundle.bytes()) + parcel.bytes);
        bundle.parcels.push_back(p);
    }
    std::erase_if(bundles_, [&](const Bundle& bundle) {
        return sets_[bundle.missing].empty() || (sets_[bundle.holders].empty() && sets_[bundle.readers].empty());
    });
}

// The bundle to which `parcel` belongs.
std::uint32_t Choosing::bundle_of(const Parcel& parcel) {
    const auto holding = whereabouts_.holding[parcel.holders];
    const auto needing = whereabouts_.needing[parcel.needers];
    std::vector<std::int32_t> holders{holding.begin(), holding.end()};
    std::vector<std::int32_t> readers;
    if (state_ == StateIn::stores) {
        holders.clear();
        std::ranges::set_intersection(holding, needing, std::back_inserter(holders));
        std::ranges::set_difference(holding, needing, std::back_inserter(readers));
    }
    std::vector<std::int32_t> missing;
    std::ranges::set_difference(needing, holding, std::back_inserter(missing));
    const std::array<std::uint32_t, 3> sets{sets_.add(holders), sets_.add(readers), sets_.add(missing)};
    const auto [number, is_new] = numbers_.try_emplace(sets, static_cast<std::uint32_t>(bundles_.size()));
    if (is_new) bundles_.push_back({sets[0], sets[1], sets[2], {}, {}});
    return number->second;
}

void Choosing::read(std::uint32_t parcel, std::span<const std::int32_t> hosts) {
    for (std::int32_t host : hosts)
        result_.direct.push_back(
            {parcel, from_storage, static_cast<std::uint32_t>(host), 0, parcels_.parcels[parcel].bytes});
}

// A bundle that one host lacks, as most are, needs no fan.
void Choosing::demand(const Bundle& bundle) {
    const auto hosts = [&](std::uint32_t set) {
        return std::vector<std::int32_t>{sets_[set].begin(), sets_[set].end()};
    };
    std::vector<std::int32_t> holders = hosts(bundle.holders);
    std::vector<std::int32_t> readers = hosts(bundle.readers);
    const std::vector<std::int32_t> missing = hosts(bundle.missing);
    if (missing.size() == 1) {
        const auto is_far = [&](std::int32_t host) { return group_of_[host] != group_of_[missing.front()]; };
        if (!std::ranges::all_of(holders, is_far) || !std::ranges::all_of(readers, is_far)) {
            std::erase_if(holders, is_far);
            std::erase_if(readers, is_far);
        }
        demands_.push_back({sets_.add(readers), sets_.add(holders), sets_.add({}), bundle.bytes()});
        return;
    }
    fans_.push_back(make_fan(bundle.bytes(), holders, readers, missing, group_of_));
    for_each_demand(fans_.back(), [&](const Senders& senders, std::uint64_t copies, auto&) {
        demands_.push_back({sets_.add(senders.readers), sets_.add(senders.holders), sets_.add(senders.relays),
                            copies * bundle.bytes()});
    });
}

void Choosing::single(const Bundle& bundle, std::span<const SenderShare> shares) {
    const auto to = static_cast<std::uint32_t>(sets_[bundle.missing].front());
    std::uint64_t begin = 0;
    for (const SenderShare& share : shares) {
        send(bundle, {share.host, to, 0}, begin, begin + share.bytes);
        begin += share.bytes;
    }
}

void Choosing::send(const Bundle& bundle, const Hop& hop, std::uint64_t begin, std::uint64_t end) {
    bundle.for_each_range(parcels_, begin, end, [&](const ParcelRange& range) {
        result_.direct.push_back({range.parcel, hop.from, hop.to, range.begin, range.end});
    });
}

void Choosing::add(const Bundle& bundle, RelayTree& tree) {
    if (tree.hops.back().depth == 0) {
        for (const Hop& hop : tree.hops) send(bundle, hop, tree.begin, tree.end);
        return;
    }
    Stream stream{std::move(tree.hops), {}};
    bundle.for_each_range(parcels_, tree.begin, tree.end,
                          [&](const ParcelRange& range) { stream.ranges.push_back(range); });
    if (!stream.ranges.empty()) result_.streams.push_back(std::move(stream));
}

}  // namespace

Transfers choose_transfers(const Parcels& parcels, std::span<const Host> hosts, const Whereabouts& whereabouts,
                           StateIn state, std::span<const SendRate> rates) {
    return Choosing{parcels, hosts, whereabouts, state}.run(rates);
}

}  // namespace tpx
