// SPDX-License-Identifier: Apache-2.0
#include "lib/change/transfers.hpp"

#include "lib/change/multicast.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

namespace tpx {
namespace {

// A parcel and its position in its bundle.
struct BundledParcel {
    std::uint32_t parcel = 0;
    std::uint64_t end = 0;  // end of its bytes in the bundle
};

// Parcels that the same hosts hold, read and lack, laid end to end.
struct Bundle {
    // Sets of hosts; see Multicast.
    std::uint32_t holders;
    std::uint32_t readers;
    std::uint32_t missing;
    std::uint64_t bytes = 0;
    std::span<BundledParcel> members = {};

    // Calls `visit` for the bytes from `begin` up to `end`, parcel by parcel; both are moved back to an element
    // boundary.
    template <class Visit>
    void for_each_range(const Parcels& all, std::uint64_t begin, std::uint64_t end, Visit&& visit) const {
        for (auto member = std::ranges::upper_bound(members, begin, {}, &BundledParcel::end); begin < end; ++member) {
            const Parcel& parcel = all.parcels[member->parcel];
            const std::uint64_t first = member->end - parcel.bytes;
            const ParcelRange range{member->parcel, parcel.align(begin - first),
                                    parcel.align(std::min(end, member->end) - first)};
            if (range.begin < range.end) visit(range);
            begin = member->end;
        }
    }
};

class Choosing {
public:
    Choosing(const Parcels& parcels, std::span<const Host> hosts, const StateLocations& locations, StateMedium state)
        : parcels_{parcels}, whereabouts_{locations}, state_{state}, group_of_{switch_groups(hosts)} {}

    Transfers run(std::span<const SendRate> rates) {
        bundle();
        for (Bundle& bundle : bundles_) demand(bundle);
        ChosenSenders sending = choose_senders(sets_, demands_, rates);
        auto shares = sending.shares.begin();
        auto multicast = multicasts_.begin();
        for (const Bundle& bundle : bundles_) {
            if (sets_[bundle.missing].size() == 1) {
                single(bundle, *shares++);
                continue;
            }
            for_each_demand(*multicast,
                            [&](auto&&, auto, std::vector<SenderShare>& chosen) { chosen = std::move(*shares++); });
            for (RelayTree& tree : relay_trees(*multicast++)) add(bundle, tree);
        }
        result_.sending = std::move(sending.bound);
        return std::move(result_);
    }

private:
    void bundle();
    std::vector<std::uint32_t> number_bundles();
    std::uint32_t bundle_of(const Parcel& parcel);
    void demand(const Bundle& bundle);
    void single(const Bundle& bundle, std::span<const SenderShare> shares);
    void send(const Bundle& bundle, const Hop& hop, std::uint64_t begin, std::uint64_t end);
    void add(const Bundle& bundle, RelayTree& tree);
    void read(std::uint32_t parcel, std::span<const std::int32_t> hosts);

    const Parcels& parcels_;
    const StateLocations& whereabouts_;
    StateMedium state_;
    std::vector<std::uint32_t> group_of_;  // switch group of each host
    RankSets sets_;                        // of hosts
    std::vector<Bundle> bundles_;
    std::vector<BundledParcel> members_;                             // of the bundles, one after the other
    std::map<std::array<std::uint32_t, 3>, std::uint32_t> numbers_;  // of bundles, by their sets
    std::vector<Multicast> multicasts_;                              // of the bundles that several hosts lack, in order
    std::vector<Demand> demands_;
    Transfers result_;
};

void Choosing::bundle() {
    const std::vector<std::uint32_t> numbers = number_bundles();
    std::vector<std::size_t> begins(bundles_.size() + 1, 0);
    for (std::uint32_t number : numbers) ++begins[number + 1];
    for (std::size_t b = 0; b < bundles_.size(); ++b) begins[b + 1] += begins[b];
    members_.resize(numbers.size());
    std::vector<std::size_t> next = begins;
    for (std::uint32_t p = 0; p < numbers.size(); ++p) {
        Bundle& bundle = bundles_[numbers[p]];
        bundle.bytes += parcels_.parcels[p].bytes;
        members_[next[numbers[p]]++] = {p, bundle.bytes};
    }
    for (std::size_t b = 0; b < bundles_.size(); ++b)
        bundles_[b].members = std::span{members_}.subspan(begins[b], begins[b + 1] - begins[b]);
    std::erase_if(bundles_, [&](const Bundle& bundle) {
        return sets_[bundle.missing].empty() || (sets_[bundle.holders].empty() && sets_[bundle.readers].empty());
    });
}

// The number of each parcel's bundle. Adds reads from storage for parcels that no host holds.
std::vector<std::uint32_t> Choosing::number_bundles() {
    std::vector<std::uint32_t> numbers;
    numbers.reserve(parcels_.parcels.size());
    std::unordered_map<std::uint64_t, std::uint32_t> known;  // by holders and needers
    std::uint64_t last = 0;
    for (std::uint32_t p = 0; p < parcels_.parcels.size(); ++p) {
        const Parcel& parcel = parcels_.parcels[p];
        const std::uint64_t key =
            std::uint64_t{whereabouts_.holding.set[parcel.holders]} << 32 | whereabouts_.needing.set[parcel.needers];
        if (p > 0 && key == last) {  // parcels of several roles follow each other
            numbers.push_back(numbers.back());
        } else {
            const auto [found, is_new] = known.try_emplace(key);
            if (is_new) found->second = bundle_of(parcel);
            numbers.push_back(found->second);
            last = key;
        }
        if (whereabouts_.holding[parcel.holders].empty()) read(p, sets_[bundles_[numbers.back()].missing]);
    }
    return numbers;
}

// The bundle to which `parcel` belongs.
std::uint32_t Choosing::bundle_of(const Parcel& parcel) {
    const auto holding = whereabouts_.holding[parcel.holders];
    const auto needing = whereabouts_.needing[parcel.needers];
    std::vector<std::int32_t> holders{holding.begin(), holding.end()};
    std::vector<std::int32_t> readers;
    if (state_ == StateMedium::stores) {
        holders.clear();
        std::ranges::set_intersection(holding, needing, std::back_inserter(holders));
        std::ranges::set_difference(holding, needing, std::back_inserter(readers));
    }
    std::vector<std::int32_t> missing;
    std::ranges::set_difference(needing, holding, std::back_inserter(missing));
    const std::array<std::uint32_t, 3> sets{sets_.add(holders), sets_.add(readers), sets_.add(missing)};
    const auto [number, is_new] = numbers_.try_emplace(sets, static_cast<std::uint32_t>(bundles_.size()));
    if (is_new) bundles_.push_back({sets[0], sets[1], sets[2]});
    return number->second;
}

void Choosing::read(std::uint32_t parcel, std::span<const std::int32_t> hosts) {
    for (std::int32_t host : hosts)
        result_.direct.push_back(
            {parcel, from_storage, static_cast<std::uint32_t>(host), 0, parcels_.parcels[parcel].bytes});
}

// Most bundles are missing on only one host and need no multicast.
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
        demands_.push_back({sets_.add(readers), sets_.add(holders), sets_.add({}), bundle.bytes});
        return;
    }
    multicasts_.push_back(make_multicast(bundle.bytes, holders, readers, missing, group_of_));
    for_each_demand(multicasts_.back(), [&](const Senders& senders, std::uint64_t copies, auto&) {
        demands_.push_back(
            {sets_.add(senders.readers), sets_.add(senders.holders), sets_.add(senders.relays), copies * bundle.bytes});
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

Transfers choose_transfers(const Parcels& parcels, std::span<const Host> hosts, const StateLocations& locations,
                           StateMedium state, std::span<const SendRate> rates) {
    return Choosing{parcels, hosts, locations, state}.run(rates);
}

}  // namespace tpx
