// SPDX-License-Identifier: Apache-2.0
#include "lib/change/place_groups.hpp"

#include "lib/change/choose_devices.hpp"
#include "lib/change/group_bound.hpp"

#include <algorithm>
#include <utility>

namespace tpx {
namespace {

constexpr std::uint32_t no_group = ~0u;

/// Searches placements of groups; a placement is the column of each group.
class GroupSearch {
public:
    GroupSearch(const GroupNeeds& needs, std::uint64_t effort) : needs_{needs}, costs_{needs}, effort_{effort} {}

    /// Improves `columns` by exchanging groups, and keeps the result if it is the best so far.
    void improve(GroupColumns columns, std::uint64_t effort);

    /// Searches all placements that might be better than the best so far; returns false if the effort ran out.
    bool search_all();

    const GroupColumns& best() const { return best_; }
    std::uint64_t crossing() const { return crossing_; }

private:
    struct Place {
        std::uint32_t column;
        std::uint32_t group;  // or no_group
    };
    std::vector<Place> places_of(const GroupColumns& columns) const;
    void exchange(Place& a, Place& b);
    bool exchange_if_better(Place& a, Place& b);
    void keep(const GroupColumns& columns);
    void search(GroupColumns& columns);

    const GroupNeeds& needs_;
    GroupCosts costs_;
    std::uint64_t effort_;  // steps of `costs_` at which work stops
    GroupColumns best_;
    std::uint64_t crossing_ = ~std::uint64_t{0};
    std::vector<std::uint32_t> free_;  // for search(): places left in each column
};

std::vector<GroupSearch::Place> GroupSearch::places_of(const GroupColumns& columns) const {
    std::vector<Place> places;
    std::vector<std::uint32_t> left = needs_.capacities;
    for (std::uint32_t group = 0; group < columns.size(); ++group) {
        places.push_back({columns[group], group});
        --left[columns[group]];
    }
    for (std::uint32_t column = 0; column < left.size(); ++column) {
        if (left[column] > 0) places.push_back({column, no_group});  // represents all free places of the column
    }
    return places;
}

void GroupSearch::exchange(Place& a, Place& b) {
    for (const Place* place : {&a, &b})
        if (place->group != no_group) costs_.remove(place->group, place->column);
    std::swap(a.column, b.column);
    for (const Place* place : {&a, &b})
        if (place->group != no_group) costs_.add(place->group, place->column);
}

bool GroupSearch::exchange_if_better(Place& a, Place& b) {
    const std::uint64_t before = costs_.crossing();
    exchange(a, b);
    if (costs_.crossing() < before) return true;
    exchange(a, b);
    return false;
}

void GroupSearch::keep(const GroupColumns& columns) {
    if (costs_.crossing() >= crossing_) return;
    crossing_ = costs_.crossing();
    best_ = columns;
}

void GroupSearch::improve(GroupColumns columns, std::uint64_t effort) {
    const std::uint64_t until = costs_.steps() + effort;
    for (std::uint32_t group = 0; group < columns.size(); ++group) costs_.add(group, columns[group]);
    std::vector<Place> places = places_of(columns);
    for (bool helps = true; helps && costs_.steps() < until;) {
        helps = false;
        for (std::size_t i = 0; i < columns.size(); ++i) {
            for (std::size_t j = i + 1; j < places.size() && costs_.steps() < until; ++j) {
                if (places[i].column == places[j].column) continue;
                helps = exchange_if_better(places[i], places[j]) || helps;
            }
        }
    }
    for (std::uint32_t group = 0; group < columns.size(); ++group) columns[group] = places[group].column;
    keep(columns);
    for (std::uint32_t group = 0; group < columns.size(); ++group) costs_.remove(group, columns[group]);
}

// Further groups never reduce the bytes of the first ones, so partial placements can be pruned.
void GroupSearch::search(GroupColumns& columns) {
    if (columns.size() == needs_.groups()) return keep(columns);
    const auto group = static_cast<std::uint32_t>(columns.size());
    for (std::uint32_t column = 0; column < free_.size() && costs_.steps() < effort_; ++column) {
        if (free_[column] == 0) continue;
        costs_.add(group, column);
        if (costs_.crossing() < crossing_) {
            --free_[column];
            columns.push_back(column);
            search(columns);
            columns.pop_back();
            ++free_[column];
        }
        costs_.remove(group, column);
    }
}

bool GroupSearch::search_all() {
    free_ = needs_.capacities;
    GroupColumns columns;
    search(columns);
    return costs_.steps() < effort_;
}

/// The columns of the groups in `start`, or of groups placed in order if `start` splits some.
GroupColumns columns_in(const Placement& start, const GroupNeeds& needs) {
    GroupColumns columns;
    if (split_groups(start.blocks, needs.size).empty()) {
        for (const Block& block : start.blocks) {
            const auto column = std::ranges::find(needs.hosts, block.host) - needs.hosts.begin();
            columns.resize(static_cast<std::size_t>(block.end / needs.size), static_cast<std::uint32_t>(column));
        }
        return columns;
    }
    for (std::uint32_t column = 0; column < needs.columns() && columns.size() < needs.groups(); ++column)
        columns.resize(std::min(columns.size() + needs.capacities[column], needs.groups()), column);
    return columns;
}

std::vector<Block> blocks_of(const GroupColumns& columns, const GroupNeeds& needs) {
    std::vector<Block> blocks;
    for (std::uint32_t group = 0; group < columns.size(); ++group) {
        const std::uint32_t host = needs.hosts[columns[group]];
        const auto begin = static_cast<std::int32_t>(group) * needs.size;
        if (blocks.empty() || blocks.back().host != host) blocks.push_back({begin, begin, host, 0});
        blocks.back().end = begin + needs.size;
    }
    return blocks;
}

}  // namespace

std::optional<GroupPlacement> place_groups(const Parcels& parcels, std::span<const Host> hosts,
                                           std::span<const RankLocation> old_ranks, const Placement& start,
                                           std::uint64_t effort) {
    if (parcels.new_ranks % start.group != 0) return std::nullopt;
    const GroupNeeds needs{parcels, hosts, old_ranks, start};
    if (needs.places() < needs.groups()) return std::nullopt;
    const GroupColumns given = columns_in(start, needs);
    const GroupBound bound = group_bound(needs, given);
    GroupSearch search{needs, effort};
    search.improve(given, effort / 4);
    search.improve(bound.columns, effort / 4);
    GroupPlacement found{.placement = {.placed_for = PlacementGoal::groups, .group = start.group},
                         .bound = bound.bytes()};
    if (search.crossing() > found.bound && search.search_all()) found.bound = search.crossing();
    Placement& placement = found.placement;
    placement.blocks = blocks_of(search.best(), needs);
    placement.crossing = search.crossing();
    placement.group_bound = bound.bytes();
    placement.group_prices = bound.group_prices;
    placement.host_prices.assign(hosts.size(), 0);
    for (std::size_t column = 0; column < needs.columns(); ++column)
        placement.host_prices[needs.hosts[column]] = bound.prices[column];
    placement.devices = choose_devices(parcels, hosts, old_ranks, placement.blocks);
    return found;
}

}  // namespace tpx
