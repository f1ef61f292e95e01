// SPDX-License-Identifier: Apache-2.0
#include "lib/change/place_for_time.hpp"

#include "lib/change/choose_devices.hpp"
#include "lib/change/least_times.hpp"
#include "lib/change/state_locations.hpp"
#include "lib/solve/break_ties.hpp"

#include <algorithm>
#include <utility>

namespace tpx {
namespace {

using BlockColumns = std::vector<std::uint32_t>;  // one for each block

/// The number of placements whose time can be predicted in a few seconds.
std::uint64_t affordable(const Parcels& parcels) {
    constexpr std::uint64_t budget = 400'000'000;
    std::uint64_t work = 1;
    for (const Parcel& parcel : parcels.parcels)
        work += 8 + parcels.holders[parcel.holders].size() + parcels.needers[parcel.needers].size();
    return std::clamp<std::uint64_t>(budget / (20 * work), 16, 20'000);
}

class Search {
public:
    Search(const Parcels& parcels, std::span<const Host> hosts, std::span<const RankLocation> old_ranks,
           StateMedium state, const Placement& start, const SecondsOf& seconds_of, std::uint64_t most)
        : parcels_{parcels},
          hosts_{hosts},
          old_ranks_{old_ranks},
          start_{start},
          seconds_of_{seconds_of},
          most_{most},
          choice_{hosts_for_blocks(hosts, start.blocks)},
          least_{least_times(parcels, hosts, old_ranks, state, start.blocks, choice_.hosts)} {
        if (choice_.wanted.empty()) choice_.wanted.assign(choice_.hosts.size(), false);
        for (const Block& block : start.blocks)
            given_.push_back(
                static_cast<std::uint32_t>(std::ranges::find(choice_.hosts, block.host) - choice_.hosts.begin()));
    }

    FastPlacement run() {
        result_.fewest_bytes = start_.crossing;
        result_.seconds_of_fewest_bytes = seconds_of_(start_);
        result_.compared = 1;
        keep(start_, result_.seconds_of_fewest_bytes, given_);
        find_bound();
        used_.assign(choice_.hosts.size(), false);
        BlockColumns columns;
        search(columns);
        result_.is_fastest = !is_stopped_;
        if (is_stopped_) improve();
        result_.is_fastest = result_.is_fastest || !is_less(result_.bound, result_.seconds);
        if (result_.is_fastest) result_.bound = result_.seconds;
        return std::move(result_);
    }

private:
    static bool is_less(double a, double b) { return a < b * (1 - 1e-12); }
    bool is_spent() const { return result_.compared >= most_; }
    bool is_long() const { return steps_ > 20'000'000; }

    void keep(Placement placement, double seconds, BlockColumns columns) {
        result_.placement = std::move(placement);
        result_.seconds = seconds;
        best_ = std::move(columns);
    }
    void find_bound();
    void try_columns(const BlockColumns& columns);
    void search(BlockColumns& columns);
    void improve();
    bool improve_block(std::uint32_t block);
    bool is_possible(const BlockColumns& columns) const;

    const Parcels& parcels_;
    std::span<const Host> hosts_;
    std::span<const RankLocation> old_ranks_;
    const Placement& start_;
    const SecondsOf& seconds_of_;
    std::uint64_t most_;
    HostChoice choice_;
    std::vector<std::vector<double>>
        least_;  // least seconds of each block on each of these hosts; < 0: the host is too small
    BlockColumns given_;
    BlockColumns best_;
    std::vector<bool> used_;
    std::uint64_t steps_ = 0;  // of the search
    bool is_stopped_ = false;
    FastPlacement result_;
};

// No placement takes less time than the longest least time of the best matching of blocks and hosts.
void Search::find_bound() {
    constexpr std::size_t most_pairs = 1 << 20;
    for (const std::vector<double>& row : least_) {
        double least = result_.seconds;
        for (double seconds : row) least = seconds < 0 ? least : std::min(least, seconds);
        result_.bound = std::max(result_.bound, least);
    }
    if (given_.size() * choice_.hosts.size() > most_pairs) return;
    const BlockColumns columns = break_ties({least_, choice_.wanted, given_});
    for (std::size_t b = 0; b < columns.size(); ++b) result_.bound = std::max(result_.bound, least_[b][columns[b]]);
    try_columns(columns);
}

bool Search::is_possible(const BlockColumns& columns) const {
    for (std::size_t b = 0; b < columns.size(); ++b) {
        const double seconds = least_[b][columns[b]];
        if (seconds < 0 || !is_less(seconds, result_.seconds)) return false;
    }
    for (std::uint32_t c = 0; c < choice_.wanted.size(); ++c) {
        if (choice_.wanted[c] && std::ranges::find(columns, c) == columns.end()) return false;
    }
    return true;
}

void Search::try_columns(const BlockColumns& columns) {
    if (columns == best_ || !is_possible(columns)) return;
    Placement placement = start_;
    for (std::size_t b = 0; b < columns.size(); ++b) placement.blocks[b].host = choice_.hosts[columns[b]];
    placement.devices = choose_devices(parcels_, hosts_, old_ranks_, placement.blocks);
    ++result_.compared;
    const double seconds = seconds_of_(placement);
    if (is_less(seconds, result_.seconds)) keep(std::move(placement), seconds, columns);
}

// Tries all ways to complete `columns`, the columns of the first blocks.
void Search::search(BlockColumns& columns) {
    if (!is_less(result_.bound, result_.seconds)) return;
    if (columns.size() == given_.size()) {
        if (is_spent()) is_stopped_ = true;
        if (!is_stopped_) try_columns(columns);
        return;
    }
    const std::vector<double>& least = least_[columns.size()];
    steps_ += used_.size();
    if (is_long()) is_stopped_ = true;
    for (std::uint32_t c = 0; c < used_.size() && !is_stopped_; ++c) {
        if (used_[c] || least[c] < 0 || !is_less(least[c], result_.seconds)) continue;
        used_[c] = true;
        columns.push_back(c);
        search(columns);
        columns.pop_back();
        used_[c] = false;
    }
}

// Tries `block` on each other host, exchanging it with the block there; returns whether that helped.
bool Search::improve_block(std::uint32_t block) {
    const double before = result_.seconds;
    for (std::uint32_t c = 0; c < choice_.hosts.size() && !is_spent(); ++c) {
        BlockColumns columns = best_;
        const auto other = std::ranges::find(columns, c);
        if (other != columns.end()) *other = columns[block];
        columns[block] = c;
        try_columns(columns);
    }
    return result_.seconds < before;
}

void Search::improve() {
    most_ *= 2;  // as many again as the search had
    for (bool helps = true; helps && !is_spent();) {
        helps = false;
        for (std::uint32_t block = 0; block < best_.size(); ++block) helps = improve_block(block) || helps;
    }
}

}  // namespace

FastPlacement place_for_time(const Parcels& parcels, std::span<const Host> hosts,
                             std::span<const RankLocation> old_ranks, StateMedium state, const Placement& start,
                             const SecondsOf& seconds_of, std::optional<std::uint64_t> most) {
    Search search{parcels, hosts, old_ranks, state, start, seconds_of, most.value_or(affordable(parcels))};
    FastPlacement found = search.run();
    const bool has_moved = !std::ranges::equal(found.placement.blocks, start.blocks, {}, &Block::host, &Block::host);
    if (!has_moved) return found;
    found.placement.crossing = crossing_bytes(parcels, hosts, old_ranks, found.placement);
    if (found.placement.crossing == start.crossing) return found;
    found.placement.placed_for = PlacementGoal::time;
    found.placement.host_prices.assign(hosts.size(), 0);
    for (Block& block : found.placement.blocks) block.price = 0;
    return found;
}

}  // namespace tpx
