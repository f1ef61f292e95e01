// SPDX-License-Identifier: Apache-2.0
#include "lib/check/check_placement.hpp"

#include "lib/check/check_group_placement.hpp"
#include "lib/check/expected_blocks.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <map>

namespace tpx {
namespace {

class Placing {
public:
    explicit Placing(const Facts& facts) : facts_{facts}, t_{facts.t} {}

    std::uint64_t run() {
        check_blocks();
        check_devices();
        group();
        for (std::size_t b = 0; b < t_.blocks.begin.size(); ++b) check_block(b);
        if (crossing_ != t_.crossing)
            throw failure("crossing: {} bytes are stored, {} counted", t_.crossing, crossing_);
        check_idle_hosts();
        return compared_;
    }

private:
    /// Bytes that the same hosts hold and the same ranks need.
    struct NeededBytes {
        std::size_t holders;  // the first set of holders on these hosts
        std::uint64_t bytes;
    };

    void check_blocks();
    void check_block_size(std::size_t block, std::uint64_t expected, std::uint32_t host) const;
    void check_devices() const;
    void group();
    void check_block(std::size_t block);
    void check_idle_hosts() const;

    const Facts& facts_;
    const HostTables& t_;
    std::vector<std::uint32_t> takers_;              // the hosts that are compared
    std::vector<bool> takes_;                        // by host: whether it is among takers_
    std::vector<bool> must_;                         // by host: whether it has a block in every assignment compared
    std::vector<std::vector<NeededBytes>> amounts_;  // by set of needers
    std::vector<std::vector<std::uint32_t>> sets_of_block_;
    std::uint64_t crossing_ = 0;
    std::uint64_t compared_ = 0;
};

void Placing::check_blocks() {
    takers_ = hosts_in_order(facts_.devices, t_.hosts.spare);
    std::vector<std::uint32_t> devices;
    for (std::uint32_t host : takers_) devices.push_back(facts_.devices[host]);
    const auto spares = static_cast<std::size_t>(
        std::ranges::count_if(takers_, [&](std::uint32_t host) { return t_.hosts.spare[host] != 0; }));
    const std::vector<std::uint64_t> sizes = expected_blocks(devices, spares, t_.new_devices.size(), t_.group);
    std::vector<std::uint32_t> cut_for;  // hosts, by block
    must_.resize(facts_.hosts(), false);
    for (std::size_t i = 0; i < takers_.size(); ++i) {
        if (sizes[i] == 0) continue;
        check_block_size(cut_for.size(), sizes[i], takers_[i]);
        cut_for.push_back(takers_[i]);
    }
    if (t_.blocks.begin.size() != cut_for.size())
        throw failure("blocks: {} are stored, {} are needed", t_.blocks.begin.size(), cut_for.size());
    const auto is_spare = [&](std::uint32_t host) { return t_.hosts.spare[host] != 0; };
    if (std::ranges::none_of(cut_for, is_spare))
        std::erase_if(takers_, is_spare);
    else
        for (std::uint32_t host : cut_for) must_[host] = !is_spare(host);
    takes_.resize(facts_.hosts(), false);
    for (std::uint32_t host : takers_) takes_[host] = true;
    for (std::size_t b = 0; t_.pinned && b < cut_for.size(); ++b) {
        const bool is_moved = t_.pinned == 1 && t_.blocks.host[b] != cut_for[b];
        if (is_moved || t_.blocks.price[b] != 0) throw failure("block {}: not where it was pinned, or with a price", b);
    }
}

void Placing::check_block_size(std::size_t block, std::uint64_t expected, std::uint32_t host) const {
    const std::size_t stored = t_.blocks.begin.size();
    const std::uint64_t size = block < stored ? t_.blocks.end[block] - t_.blocks.begin[block] : 0;
    if (size != expected)
        throw failure("block {}: {} ranks; {} were cut for host '{}' with {} devices", block, size, expected,
                      t_.hosts.name[host], facts_.devices[host]);
}

void Placing::check_devices() const {
    std::vector<std::int32_t> sorted = t_.new_devices;
    std::ranges::sort(sorted);
    if (std::ranges::adjacent_find(sorted) != sorted.end()) throw failure("ranks/new_device: a device has two ranks");
    std::vector<bool> used(facts_.hosts(), false);
    for (std::size_t b = 0; b < t_.blocks.begin.size(); ++b) {
        const std::uint32_t host = t_.blocks.host[b];
        if (used[host] || !takes_[host])
            throw failure("block {}: host '{}' takes no block, or has another", b, t_.hosts.name[host]);
        used[host] = true;
        for (std::uint32_t rank = t_.blocks.begin[b]; rank < t_.blocks.end[b]; ++rank) {
            if (facts_.new_host[rank] != static_cast<std::int32_t>(host))
                throw failure("new rank {}: on host '{}', its block on '{}'", rank,
                              t_.hosts.name[facts_.new_host[rank]], t_.hosts.name[host]);
        }
    }
}

void Placing::group() {
    // Sets of holders on the same hosts count as one.
    std::map<std::vector<std::int32_t>, std::size_t> known;
    std::vector<std::size_t> first(t_.holders.begin.size() - 1);
    for (std::size_t set = 0; set < first.size(); ++set) {
        const auto hosts = Facts::list(facts_.holding_hosts, set);
        first[set] = known.emplace(std::vector(hosts.begin(), hosts.end()), set).first->second;
    }
    const std::size_t sets = t_.needers.begin.size() - 1;
    amounts_.resize(sets);
    for (std::uint32_t p = 0; p < facts_.parcels(); ++p)
        amounts_[t_.parcels.needers[p]].push_back({first[t_.parcels.holders[p]], t_.parcels.bytes[p]});
    for (auto& list : amounts_) {
        std::ranges::sort(list, {}, &NeededBytes::holders);
        std::size_t kept = 0;
        for (std::size_t i = 0; i < list.size(); ++i) {
            if (kept > 0 && list[kept - 1].holders == list[i].holders)
                list[kept - 1].bytes += list[i].bytes;
            else
                list[kept++] = list[i];
        }
        list.resize(kept);
    }
    std::vector<std::uint32_t> block_of_rank;
    for (std::uint32_t b = 0; b < t_.blocks.begin.size(); ++b) block_of_rank.resize(t_.blocks.end[b], b);
    sets_of_block_.resize(t_.blocks.begin.size());
    for (std::uint32_t set = 0; set < sets; ++set) {
        std::uint32_t last = ~0u;
        for (std::int32_t rank : Facts::list(t_.needers, set)) {
            if (block_of_rank[rank] != last) sets_of_block_[last = block_of_rank[rank]].push_back(set);
        }
    }
}

void Placing::check_block(std::size_t block) {
    std::int64_t needed = 0;
    std::vector<std::int64_t> held(facts_.hosts(), 0);
    for (std::uint32_t set : sets_of_block_[block]) {
        for (const NeededBytes& amount : amounts_[set]) {
            needed += static_cast<std::int64_t>(amount.bytes);
            for (std::int32_t host : Facts::list(facts_.holding_hosts, amount.holders))
                held[host] += static_cast<std::int64_t>(amount.bytes);
        }
    }
    const std::uint32_t own = t_.blocks.host[block];
    const std::size_t size = t_.blocks.end[block] - t_.blocks.begin[block];
    crossing_ += static_cast<std::uint64_t>(needed - held[own]);
    for (std::uint32_t host : takers_) {
        if (t_.pinned || facts_.devices[host] < size) continue;
        const std::int64_t cost = needed - held[host];
        const std::int64_t price = t_.blocks.price[block] + t_.hosts.price[host];
        if (price > cost || (host == own && price != cost))
            throw failure("block {} on host '{}': costs {} bytes, the prices add up to {}", block, t_.hosts.name[host],
                          cost, price);
        ++compared_;
    }
}

void Placing::check_idle_hosts() const {
    std::vector<bool> used(facts_.hosts(), false);
    for (std::uint32_t host : t_.blocks.host) used[host] = true;
    for (std::uint32_t host = 0; host < facts_.hosts(); ++host) {
        // Hosts that every assignment compared must use may have any price.
        if ((!used[host] || t_.pinned) ? t_.hosts.price[host] != 0 : t_.hosts.price[host] > 0 && !must_[host])
            throw failure("host '{}': a price of {}", t_.hosts.name[host], t_.hosts.price[host]);
        if (must_[host] && !used[host])
            throw failure("host '{}': no block, though spare hosts have some", t_.hosts.name[host]);
    }
}

}  // namespace

std::uint64_t check_placement(const Facts& facts) {
    if (facts.t.pinned == 4) return check_group_placement(facts);
    if (!facts.t.group_prices.empty() || facts.t.group_bound != 0)
        throw failure("tp_groups: prices, but no TP groups were placed");
    return Placing{facts}.run();
}

}  // namespace tpx
