// SPDX-License-Identifier: Apache-2.0
#include "lib/change/placement.hpp"

#include "lib/change/choose_devices.hpp"
#include "lib/change/host_problem.hpp"
#include "lib/change/mapped_rank_sets.hpp"
#include "lib/change/rank_locations.hpp"
#include "lib/core/error.hpp"
#include "lib/solve/assignment.hpp"
#include "lib/solve/break_ties.hpp"

#include <algorithm>

namespace tpx {
namespace {

using Numbers = std::vector<std::int32_t>;

// Ensures that sums of bytes over all ranks, and of prices, fit into 64 bits.
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
    Placing(const Parcels& parcels, std::span<const Host> hosts, std::span<const RankLocation> old_ranks, bool pinned,
            int group)
        : parcels_{parcels},
          hosts_{hosts},
          old_hosts_{old_rank_hosts(hosts, old_ranks, parcels.old_ranks)},
          old_ranks_{old_ranks},
          amounts_{amounts(parcels)} {
        result_.placed_for = pinned ? PlacementGoal::order : PlacementGoal::bytes;
        result_.group = group;
        result_.blocks = cut_blocks(hosts, parcels.new_ranks, group);
        result_.host_prices.resize(hosts.size());
    }

    Placement run() {
        place_blocks();
        result_.devices = result_.is_proven() ? choose_devices(parcels_, amounts_, hosts_, old_ranks_, result_.blocks)
                                              : devices_in_order(hosts_, result_.blocks);
        return std::move(result_);
    }

private:
    Numbers block_of_rank() const;
    Numbers old_ranks_on(std::span<const std::uint32_t> columns) const;
    void place_blocks();
    void choose_columns();
    void assign_blocks(std::span<const Amount> amounts, const RankSets& holding, const RankSets& needing);
    void prefer_fast_hosts(std::span<const Amount> amounts, const RankSets& holding, const RankSets& needing);
    void count(std::span<const Amount> amounts, const RankSets& holding, const RankSets& needing);

    const Parcels& parcels_;
    std::span<const Host> hosts_;
    Numbers old_hosts_;
    std::span<const RankLocation> old_ranks_;
    std::vector<std::uint32_t> order_;      // candidate hosts: the columns
    std::vector<std::uint32_t> column_of_;  // of each candidate host
    std::vector<bool> wanted_;              // columns that have a block in every assignment compared; empty: none
    std::vector<Amount> amounts_;
    Placement result_;
};

Numbers Placing::block_of_rank() const {
    Numbers block_of;
    for (std::size_t b = 0; b < result_.blocks.size(); ++b)
        block_of.resize(static_cast<std::size_t>(result_.blocks[b].end), static_cast<std::int32_t>(b));
    return block_of;
}

// The position in `columns` of the host of each old rank; -1: none.
Numbers Placing::old_ranks_on(std::span<const std::uint32_t> columns) const {
    Numbers column_of(hosts_.size(), -1);
    for (std::size_t c = 0; c < columns.size(); ++c) column_of[columns[c]] = static_cast<std::int32_t>(c);
    Numbers on;
    for (std::int32_t host : old_hosts_) on.push_back(host < 0 ? -1 : column_of[host]);
    return on;
}

void Placing::choose_columns() {
    HostChoice choice = hosts_for_blocks(hosts_, result_.blocks);
    order_ = std::move(choice.hosts);
    wanted_ = std::move(choice.wanted);
    column_of_.resize(hosts_.size());
    for (std::uint32_t c = 0; c < order_.size(); ++c) column_of_[order_[c]] = c;
}

void Placing::place_blocks() {
    choose_columns();
    const MappedRankSets holding = map_rank_sets(parcels_.holders, old_ranks_on(order_));
    const MappedRankSets needing = map_rank_sets(parcels_.needers, block_of_rank());
    const std::vector<Amount> amounts = sum_amounts(amounts_, holding.set, needing.set);
    if (result_.is_proven()) {
        assign_blocks(amounts, holding.sets, needing.sets);
        prefer_fast_hosts(amounts, holding.sets, needing.sets);
    }
    count(amounts, holding.sets, needing.sets);
}

void Placing::assign_blocks(std::span<const Amount> amounts, const RankSets& holding, const RankSets& needing) {
    std::vector<AssignmentProblem::Member> rows;
    std::vector<AssignmentProblem::Member> columns;
    for (const Block& block : result_.blocks) rows.push_back({static_cast<std::uint32_t>(block.end - block.begin), 0});
    for (std::uint32_t host : order_) columns.push_back({static_cast<std::uint32_t>(free_devices(hosts_[host])), 0});
    AssignmentProblem problem = host_problem(amounts, holding, needing, std::move(rows), std::move(columns));
    for (const Block& block : result_.blocks) problem.given.push_back(column_of_[block.host]);
    problem.wanted = wanted_;

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

// Among the placements with the fewest crossing bytes, chooses one in which the host that receives longest finishes
// first. The prices show which pairs of block and host such placements consist of.
void Placing::prefer_fast_hosts(std::span<const Amount> amounts, const RankSets& holding, const RankSets& needing) {
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
        ties.required.push_back(result_.host_prices[order_[c]] != 0 || (!wanted_.empty() && wanted_[c]));
    for (std::size_t b = 0; b < result_.blocks.size(); ++b) {
        const Block& block = result_.blocks[b];
        std::vector<double>& seconds = ties.seconds.emplace_back(order_.size(), -1.0);
        for (std::size_t c = 0; c < order_.size(); ++c) {
            const bool is_tight = block.price + result_.host_prices[order_[c]] == missing[b][c];
            if (is_tight && free_devices(hosts_[order_[c]]) >= block.end - block.begin)
                seconds[c] = static_cast<double>(missing[b][c]) / nic(order_[c]);
        }
        ties.given.push_back(column_of_[block.host]);
    }
    const std::vector<std::uint32_t> columns = break_ties(ties);
    for (std::size_t b = 0; b < columns.size(); ++b) result_.blocks[b].host = order_[columns[b]];
}

void Placing::count(std::span<const Amount> amounts, const RankSets& holding, const RankSets& needing) {
    for (const Amount& amount : amounts) {
        const auto on = holding[amount.holders];
        for (std::int32_t block : needing[amount.needers]) {
            const auto column = static_cast<std::int32_t>(column_of_[result_.blocks[block].host]);
            if (!std::ranges::binary_search(on, column)) result_.crossing += amount.bytes;
        }
    }
}

}  // namespace

Placement place(const Parcels& parcels, std::span<const Host> hosts, std::span<const RankLocation> old_ranks,
                bool pinned, int group) {
    require_countable(parcels);
    return Placing{parcels, hosts, old_ranks, pinned, group}.run();
}

}  // namespace tpx
