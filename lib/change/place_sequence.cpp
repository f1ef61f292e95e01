// SPDX-License-Identifier: Apache-2.0
#include "lib/change/place_sequence.hpp"

#include "lib/change/model_parcels.hpp"
#include "lib/change/state_locations.hpp"

#include <algorithm>
#include <iterator>

namespace tpx {
namespace {

/// Whether hosts are interchangeable: all that take ranks have the same number of devices.
bool are_interchangeable(std::span<const Layout> layouts, std::span<const Host> hosts) {
    std::vector<Host> regular;
    std::ranges::copy_if(hosts, std::back_inserter(regular), [](const Host& h) { return !h.lost && !h.spare; });
    if (regular.empty()) return false;
    const int free = free_devices(regular.front());
    const auto devices = std::ssize(regular) * free;
    return std::ranges::all_of(regular, [&](const Host& host) { return free_devices(host) == free; }) &&
           std::ranges::all_of(layouts.subspan(1), [&](const Layout& layout) { return layout.ranks() <= devices; });
}

/// Adds the parcels of `from` to `to`, which has the same new ranks. The old ranks of `from` are renumbered from
/// `first` on.
void append(Parcels& to, const Parcels& from, std::int32_t first) {
    const auto add = [](const RankSets& sets, std::uint32_t set, RankSets& all, std::int32_t offset) {
        std::vector<std::int32_t> ranks{sets[set].begin(), sets[set].end()};
        for (std::int32_t& rank : ranks) rank += offset;
        return all.add(ranks);
    };
    for (Parcel parcel : from.parcels) {
        parcel.holders = add(from.holders, parcel.holders, to.holders, first);
        parcel.needers = add(from.needers, parcel.needers, to.needers, 0);
        to.parcels.push_back(parcel);
    }
}

class Sequence {
public:
    Sequence(const ModelState& model, std::span<const Layout> layouts, std::span<const Host> hosts,
             std::span<const RankLocation> old_ranks)
        : model_{model}, layouts_{layouts}, hosts_{hosts}, old_ranks_{old_ranks} {
        for (std::size_t i = 0; i + 1 < layouts.size(); ++i) {
            steps_.push_back(model_parcels(model, layouts[i], layouts[i + 1]));
            back_.push_back(model_parcels(model, layouts[i + 1], layouts[i]));
        }
    }

    SequencePlacement improved(const std::vector<Placement>& one_by_one) {
        placements_ = one_by_one;
        improve();
        std::vector<Placement> best = placements_;
        const std::uint64_t least = crossing();
        place_backward();
        improve();
        if (least <= crossing()) placements_ = std::move(best);
        const std::uint64_t reached = crossing();
        return {prove(), reached, 0, false};
    }

private:
    std::vector<RankLocation> rank_locations_before(std::size_t step) const {
        return step == 0 ? std::vector<RankLocation>{old_ranks_.begin(), old_ranks_.end()}
                         : rank_locations_of(placements_[step - 1]);
    }

    std::uint64_t crossing() const {
        std::uint64_t bytes = 0;
        for (std::size_t i = 0; i < steps_.size(); ++i)
            bytes += crossing_bytes(steps_[i], hosts_, rank_locations_before(i), placements_[i]);
        return bytes;
    }

    // The best placement of the layout after `step`, for the steps before and after it: up to a constant, their joint
    // cost is the bytes that the layout needs and its hosts do not hold in the layout before, plus those that they do
    // not hold in the layout after. `is_before_known`: whether the layout before it is placed.
    Placement place_between(std::size_t step, bool is_before_known) const {
        std::vector<RankLocation> rank_locations;
        Parcels both = steps_[step];
        both.holders = {};
        both.needers = {};
        both.parcels.clear();
        if (is_before_known) {
            append(both, steps_[step], 0);
            rank_locations = rank_locations_before(step);
        }
        if (step + 1 < steps_.size()) {
            append(both, back_[step + 1], static_cast<std::int32_t>(rank_locations.size()));
            std::ranges::copy(rank_locations_of(placements_[step + 1]), std::back_inserter(rank_locations));
        }
        both.old_ranks = static_cast<int>(rank_locations.size());
        return place(both, hosts_, rank_locations, false, tp_span(layouts_[step + 1]));
    }

    void place_backward() {
        const std::size_t last = steps_.size() - 1;
        placements_[last] = place(model_parcels(model_, layouts_.front(), layouts_.back()), hosts_, old_ranks_, false,
                                  tp_span(layouts_.back()));
        for (std::size_t step = last; step-- > 0;) placements_[step] = place_between(step, step == 0);
    }

    void improve() {
        constexpr int most_sweeps = 8;
        std::uint64_t reached = crossing();
        for (int sweep = 0; sweep < most_sweeps; ++sweep) {
            for (std::size_t step = 0; step < steps_.size(); ++step) placements_[step] = place_between(step, true);
            const std::uint64_t now = crossing();
            if (now >= reached) return;
            reached = now;
        }
    }

    // Gives each placement the prices that prove it for its own step; if there are none, marks it
    // PlacementGoal::sequence.
    std::vector<Placement> prove() {
        for (std::size_t step = 0; step < steps_.size(); ++step) {
            const std::vector<RankLocation> rank_locations = rank_locations_before(step);
            Placement& placement = placements_[step];
            const Placement alone = place(steps_[step], hosts_, rank_locations, false, tp_span(layouts_[step + 1]));
            placement.crossing = crossing_bytes(steps_[step], hosts_, rank_locations, placement);
            // All best placements have the same prices: in each of them, every pair of block and host costs the sum of
            // its prices.
            placement.placed_for =
                placement.crossing == alone.crossing ? PlacementGoal::bytes : PlacementGoal::sequence;
            placement.host_prices =
                placement.is_proven() ? alone.host_prices : std::vector<std::int64_t>(hosts_.size());
            for (std::size_t b = 0; b < placement.blocks.size(); ++b)
                placement.blocks[b].price = placement.is_proven() ? alone.blocks[b].price : 0;
        }
        return placements_;
    }

    const ModelState& model_;
    std::span<const Layout> layouts_;
    std::span<const Host> hosts_;
    std::span<const RankLocation> old_ranks_;
    std::vector<Parcels> steps_;
    std::vector<Parcels> back_;  // from the layout after each step to the one before it
    std::vector<Placement> placements_;
};

/// The best placement of each step, given the one before.
SequencePlacement place_one_by_one(const ModelState& model, std::span<const Layout> layouts,
                                   std::span<const Host> hosts, std::span<const RankLocation> old_ranks) {
    SequencePlacement made;
    std::vector<RankLocation> rank_locations{old_ranks.begin(), old_ranks.end()};
    for (std::size_t i = 0; i + 1 < layouts.size(); ++i) {
        made.steps.push_back(place(model_parcels(model, layouts[i], layouts[i + 1]), hosts, rank_locations, false,
                                   tp_span(layouts[i + 1])));
        made.crossing += made.steps.back().crossing;
        rank_locations = rank_locations_of(made.steps.back());
    }
    made.one_by_one = made.crossing;
    return made;
}

}  // namespace

std::vector<RankLocation> rank_locations_of(const Placement& placement) {
    std::vector<RankLocation> rank_locations;
    for (const Block& block : placement.blocks) {
        for (std::int32_t rank = block.begin; rank < block.end; ++rank)
            rank_locations.push_back(
                {static_cast<std::int32_t>(block.host), placement.devices[static_cast<std::size_t>(rank)]});
    }
    return rank_locations;
}

SequencePlacement place_sequence(const ModelState& model, std::span<const Layout> layouts, std::span<const Host> hosts,
                                 std::span<const RankLocation> old_ranks) {
    SequencePlacement made = place_one_by_one(model, layouts, hosts, old_ranks);
    made.is_least = layouts.size() == 2 || are_interchangeable(layouts, hosts);
    if (made.is_least) return made;
    const std::uint64_t one_by_one = made.one_by_one;
    SequencePlacement better = Sequence{model, layouts, hosts, old_ranks}.improved(made.steps);
    if (better.crossing >= one_by_one) return made;
    better.one_by_one = one_by_one;
    return better;
}

}  // namespace tpx
