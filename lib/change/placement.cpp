// SPDX-License-Identifier: Apache-2.0
#include "lib/change/placement.hpp"

#include "lib/change/host_problem.hpp"
#include "lib/change/images.hpp"
#include "lib/change/seats.hpp"
#include "lib/core/error.hpp"
#include "lib/solve/assignment.hpp"
#include "lib/solve/break_ties.hpp"

#include <algorithm>
#include <numeric>

namespace tpx {
namespace {

using Numbers = std::vector<std::int32_t>;

// Hosts that may take ranks: first those that are not spare.
std::vector<std::uint32_t> takers(std::span<const Host> hosts) {
    std::vector<std::uint32_t> order;
    for (std::uint32_t h = 0; h < hosts.size(); ++h) {
        if (!hosts[h].lost && hosts[h].gpus > 0) order.push_back(h);
    }
    std::ranges::stable_partition(order, [&](std::uint32_t h) { return !hosts[h].spare; });
    return order;
}

std::vector<Block> cut_blocks(std::span<const Host> hosts, std::span<const std::uint32_t> order, int ranks) {
    std::vector<Block> blocks;
    std::int64_t places = 0;
    for (std::uint32_t host : order) {
        const auto begin = static_cast<std::int32_t>(std::min<std::int64_t>(places, ranks));
        places += hosts[host].gpus;
        const auto end = static_cast<std::int32_t>(std::min<std::int64_t>(places, ranks));
        if (begin != end) blocks.push_back({begin, end, host, 0});
    }
    if (places < ranks)
        throw Error{Exit::usage, "{} ranks do not fit on {} hosts with {} GPUs in all", ranks, order.size(), places};
    return blocks;
}

// Sums of bytes over all ranks, and of prices, then fit into 64 bits.
void require_countable(const Parcels& parcels) {
    static constexpr unsigned __int128 most = std::uint64_t{1} << 62;
    unsigned __int128 bytes = 0;
    for (const Parcel& parcel : parcels.parcels)
        bytes += static_cast<unsigned __int128>(parcel.bytes) * parcels.needers[parcel.needers].size();
    if (bytes >= most)
        throw Error{Exit::usage, "the ranks need {:.1e} bytes together, 2^62 or more", static_cast<double>(bytes)};
}

class Placing {
public:
    Placing(const Parcels& parcels, std::span<const Host> hosts, std::span<const Seat> old_ranks, bool pinned)
        : parcels_{parcels},
          hosts_{hosts},
          old_hosts_{seat_hosts(hosts, old_ranks, parcels.old_ranks)},
          old_devices_{seat_devices(hosts, old_ranks)},
          firsts_{first_devices(hosts)},
          order_{takers(hosts)},
          amounts_{amounts(parcels)} {
        result_.pinned = pinned;
        result_.blocks = cut_blocks(hosts, order_, parcels.new_ranks);
        result_.host_prices.resize(hosts.size());
    }

    Placement run() {
        place_blocks();
        result_.devices.resize(static_cast<std::size_t>(parcels_.new_ranks));
        for (const Block& block : result_.blocks) {
            const auto begin = result_.devices.begin() + block.begin;
            std::iota(begin, begin + (block.end - block.begin), firsts_[block.host]);
        }
        if (!result_.pinned) place_ranks();
        return std::move(result_);
    }

private:
    Numbers block_of_rank() const;
    Numbers old_ranks_on(std::span<const std::uint32_t> columns) const;
    void place_blocks();
    void assign_blocks(std::span<const Amount> amounts, const RankSets& holding, const RankSets& needing,
                       std::size_t regular);
    void prefer_fast_hosts(std::span<const Amount> amounts, const RankSets& holding, const RankSets& needing,
                           std::size_t regular);
    void count(std::span<const Amount> amounts, const RankSets& holding, const RankSets& needing);
    std::vector<Gain> gains_on_devices() const;
    void place_ranks();
    void place_ranks(const Block& block, std::span<const Gain> gains);

    const Parcels& parcels_;
    std::span<const Host> hosts_;
    Numbers old_hosts_;
    Numbers old_devices_;
    Numbers firsts_;
    std::vector<std::uint32_t> order_;
    std::vector<Amount> amounts_;
    Placement result_;
};

Numbers Placing::block_of_rank() const {
    Numbers block_of;
    for (std::size_t b = 0; b < result_.blocks.size(); ++b)
        block_of.resize(static_cast<std::size_t>(result_.blocks[b].end), static_cast<std::int32_t>(b));
    return block_of;
}

// Which of `columns` each old rank is on.
Numbers Placing::old_ranks_on(std::span<const std::uint32_t> columns) const {
    Numbers column_of(hosts_.size(), -1);
    for (std::size_t c = 0; c < columns.size(); ++c) column_of[columns[c]] = static_cast<std::int32_t>(c);
    Numbers on;
    for (std::int32_t host : old_hosts_) on.push_back(host < 0 ? -1 : column_of[host]);
    return on;
}

// Spare hosts are compared only when some must be used; then all the others are used too. Blocks are numbered in the
// order of hosts, so that block i is given column i.
void Placing::place_blocks() {
    const auto regular = static_cast<std::size_t>(
        std::ranges::count_if(order_, [&](std::uint32_t host) { return !hosts_[host].spare; }));
    if (result_.blocks.size() <= regular) order_.resize(regular);
    const Images holding = images(parcels_.holders, old_ranks_on(order_));
    const Images needing = images(parcels_.needers, block_of_rank());
    const std::vector<Amount> amounts = summed(amounts_, holding.set, needing.set);
    if (!result_.pinned) {
        assign_blocks(amounts, holding.sets, needing.sets, regular);
        prefer_fast_hosts(amounts, holding.sets, needing.sets, regular);
    }
    count(amounts, holding.sets, needing.sets);
}

void Placing::assign_blocks(std::span<const Amount> amounts, const RankSets& holding, const RankSets& needing,
                            std::size_t regular) {
    std::vector<Problem::Member> rows;
    std::vector<Problem::Member> columns;
    for (const Block& block : result_.blocks) rows.push_back({static_cast<std::uint32_t>(block.end - block.begin), 0});
    for (std::uint32_t host : order_) columns.push_back({static_cast<std::uint32_t>(hosts_[host].gpus), 0});
    Problem problem = host_problem(amounts, holding, needing, std::move(rows), std::move(columns));
    problem.given.resize(result_.blocks.size());
    std::iota(problem.given.begin(), problem.given.end(), 0u);
    if (order_.size() > regular) problem.wanted.assign(order_.size(), false);
    std::fill_n(problem.wanted.begin(), std::min(regular, problem.wanted.size()), true);

    const Assignment found = assign(problem);
    for (std::size_t c = 0; c < order_.size(); ++c) result_.host_prices[order_[c]] = found.column_prices[c];
    for (std::size_t b = 0; b < result_.blocks.size(); ++b) {
        result_.blocks[b].host = order_[found.columns[b]];
        result_.blocks[b].price = found.row_prices[b];
    }
    for (const Amount& amount : amounts) {
        if (holding[amount.holders].size() == order_.size()) continue;  // no host lacks it
        for (std::int32_t block : needing[amount.needers])
            result_.blocks[block].price += static_cast<std::int64_t>(amount.bytes);
    }
}

// Among placements with as few crossing bytes, one in which the host that receives longest is done first. The prices
// tell which pairs of block and host such placements consist of.
void Placing::prefer_fast_hosts(std::span<const Amount> amounts, const RankSets& holding, const RankSets& needing,
                                std::size_t regular) {
    static constexpr std::size_t most_pairs = 1 << 20;
    const auto nic = [&](std::uint32_t host) { return hosts_[host].nic.value_or(default_rates.nic); };
    const bool are_alike =
        std::ranges::all_of(order_, [&](std::uint32_t host) { return nic(host) == nic(order_.front()); });
    if (are_alike || result_.blocks.size() * order_.size() > most_pairs) return;
    std::vector<std::int64_t> needed(result_.blocks.size(), 0);
    std::vector<std::vector<std::int64_t>> missing(result_.blocks.size(), std::vector<std::int64_t>(order_.size(), 0));
    for (const Amount& amount : amounts) {
        const auto bytes = static_cast<std::int64_t>(amount.bytes);
        for (std::int32_t block : needing[amount.needers]) {
            std::vector<std::int64_t>& row = missing[static_cast<std::size_t>(block)];
            needed[static_cast<std::size_t>(block)] += bytes;
            for (std::int32_t column : holding[amount.holders]) row[static_cast<std::size_t>(column)] -= bytes;
        }
    }
    for (std::size_t b = 0; b < missing.size(); ++b) {
        for (std::int64_t& bytes : missing[b]) bytes += needed[b];
    }
    Ties ties;
    for (std::size_t c = 0; c < order_.size(); ++c)
        ties.required.push_back(result_.host_prices[order_[c]] != 0 || (order_.size() > regular && c < regular));
    for (std::size_t b = 0; b < result_.blocks.size(); ++b) {
        const Block& block = result_.blocks[b];
        std::vector<double>& seconds = ties.seconds.emplace_back(order_.size(), -1.0);
        for (std::size_t c = 0; c < order_.size(); ++c) {
            const bool is_tight = block.price + result_.host_prices[order_[c]] == missing[b][c];
            if (is_tight && hosts_[order_[c]].gpus >= block.end - block.begin)
                seconds[c] = static_cast<double>(missing[b][c]) / nic(order_[c]);
        }
        ties.given.push_back(static_cast<std::uint32_t>(std::ranges::find(order_, block.host) - order_.begin()));
    }
    const std::vector<std::uint32_t> columns = break_ties(ties);
    for (std::size_t b = 0; b < columns.size(); ++b) result_.blocks[b].host = order_[columns[b]];
}

void Placing::count(std::span<const Amount> amounts, const RankSets& holding, const RankSets& needing) {
    std::vector<std::uint32_t> column_of(hosts_.size());
    for (std::uint32_t c = 0; c < order_.size(); ++c) column_of[order_[c]] = c;
    for (const Amount& amount : amounts) {
        const auto on = holding[amount.holders];
        for (std::int32_t block : needing[amount.needers]) {
            const auto column = static_cast<std::int32_t>(column_of[result_.blocks[block].host]);
            if (!std::ranges::binary_search(on, column)) result_.crossing += amount.bytes;
        }
    }
}

// What each new rank needs and each device of its host holds, sorted by rank.
std::vector<Gain> Placing::gains_on_devices() const {
    const Images holding = images(parcels_.holders, old_devices_);
    const Numbers block_of = block_of_rank();
    std::vector<Gain> gains;
    for (const Amount& amount : amounts_) {
        const auto on = holding[amount.holders];
        for (std::int32_t rank : parcels_.needers[amount.needers]) {
            const std::uint32_t host = result_.blocks[block_of[rank]].host;
            for (auto device = std::ranges::lower_bound(on, firsts_[host]);
                 device != on.end() && *device < firsts_[host + 1]; ++device)
                gains.push_back({static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(*device), amount.bytes});
        }
    }
    std::ranges::sort(gains, {}, &Gain::row);
    return gains;
}

void Placing::place_ranks() {
    const std::vector<Gain> gains = gains_on_devices();
    auto begin = gains.begin();
    for (const Block& block : result_.blocks) {
        const auto end = std::find_if(
            begin, gains.end(), [&](const Gain& gain) { return gain.row >= static_cast<std::uint32_t>(block.end); });
        place_ranks(block, {begin, end});
        begin = end;
    }
}

void Placing::place_ranks(const Block& block, std::span<const Gain> gains) {
    const auto first_rank = static_cast<std::uint32_t>(block.begin);
    const auto first_device = static_cast<std::uint32_t>(firsts_[block.host]);
    Problem problem;
    problem.rows.resize(static_cast<std::size_t>(block.end - block.begin));
    problem.columns.resize(static_cast<std::size_t>(hosts_[block.host].gpus));
    for (const Gain& gain : gains)
        problem.gains.push_back({gain.row - first_rank, gain.column - first_device, gain.gain});
    problem.given.resize(problem.rows.size());
    std::iota(problem.given.begin(), problem.given.end(), 0u);
    const Assignment found = assign(problem);
    for (std::size_t i = 0; i < found.columns.size(); ++i)
        result_.devices[first_rank + i] = static_cast<std::int32_t>(first_device + found.columns[i]);
}

}  // namespace

std::vector<Block> blocks_in_order(std::span<const Host> hosts, int ranks) {
    return cut_blocks(hosts, takers(hosts), ranks);
}

Placement place(const Parcels& parcels, std::span<const Host> hosts, std::span<const Seat> old_ranks, bool pinned) {
    require_countable(parcels);
    return Placing{parcels, hosts, old_ranks, pinned}.run();
}

}  // namespace tpx
