// SPDX-License-Identifier: Apache-2.0
#include "lib/change/group_bound.hpp"

#include "lib/change/host_problem.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tpx {
namespace {

/// An assignment problem whose rows are groups and whose columns are places: a host (a column of GroupNeeds) has one
/// place for each group that it can take.
class PlaceProblem {
public:
    PlaceProblem(const GroupNeeds& needs, const GroupColumns& given) : needs_{needs} {
        for (std::uint32_t column = 0; column < needs.columns(); ++column) {
            first_place_.push_back(static_cast<std::int32_t>(column_of_.size()));
            column_of_.insert(column_of_.end(), needs.capacities[column], column);
        }
        first_place_.push_back(static_cast<std::int32_t>(column_of_.size()));
        std::vector<AssignmentProblem::Member> rows(needs.groups()), places(column_of_.size());
        problem_ = host_problem(shared_amounts(), holding_, needs.needing, std::move(rows), std::move(places));
        std::vector<std::int32_t> next{first_place_};
        for (std::uint32_t column : given) problem_.given.push_back(static_cast<std::uint32_t>(next[column]++));
    }

    GroupBound solve() const;

private:
    // What each needer pays of each amount, with places instead of columns as holders. Fills `holding_`.
    std::vector<Amount> shared_amounts();

    const GroupNeeds& needs_;
    std::vector<std::uint32_t> column_of_;   // of each place
    std::vector<std::int32_t> first_place_;  // of each column, and one more
    RankSets holding_;
    AssignmentProblem problem_;
};

std::uint32_t largest_capacity(const GroupNeeds& needs) { return std::ranges::max(needs.capacities); }

/// What each group that needs the bytes of `amount` pays for them.
std::uint64_t part(const GroupNeeds& needs, const Amount& amount) {
    return amount.bytes / std::min<std::uint64_t>(needs.needing[amount.needers].size(), largest_capacity(needs));
}

// All places of a column have the same price.
GroupBound PlaceProblem::solve() const {
    Assignment found = assign(problem_);
    GroupBound bound{.group_prices = std::move(found.row_prices)};
    for (std::uint32_t place : found.columns) bound.columns.push_back(column_of_[place]);
    bound.prices.assign(needs_.columns(), 0);
    for (std::size_t place = 0; place < column_of_.size(); ++place)
        bound.prices[column_of_[place]] = found.column_prices[place];
    for (const Amount& amount : needs_.amounts) {
        if (needs_.holding[amount.holders].size() == needs_.columns()) continue;  // no group pays
        for (std::int32_t group : needs_.needing[amount.needers])
            bound.group_prices[static_cast<std::size_t>(group)] += static_cast<std::int64_t>(part(needs_, amount));
    }
    return bound;
}

std::vector<Amount> PlaceProblem::shared_amounts() {
    std::vector<std::uint32_t> number;  // for each set of columns, the number of the set of their places
    for (std::uint32_t set = 0; set < needs_.holding.size(); ++set) {
        std::vector<std::int32_t> places;
        for (std::int32_t column : needs_.holding[set]) {
            const auto c = static_cast<std::size_t>(column);
            for (std::int32_t place = first_place_[c]; place < first_place_[c + 1]; ++place) places.push_back(place);
        }
        number.push_back(holding_.add(places));
    }
    std::vector<Amount> shared;
    for (const Amount& amount : needs_.amounts)
        shared.push_back({number[amount.holders], amount.needers, part(needs_, amount)});
    return shared;
}

/// The least that all groups pay together, by the prices.
std::uint64_t paid(const GroupNeeds& needs, const GroupBound& bound) {
    std::int64_t sum = std::accumulate(bound.group_prices.begin(), bound.group_prices.end(), std::int64_t{0});
    for (std::size_t column = 0; column < needs.columns(); ++column)
        sum += bound.prices[column] * static_cast<std::int64_t>(needs.capacities[column]);
    return static_cast<std::uint64_t>(sum);
}

/// The bytes that cross because their holders cannot take all groups that need them.
std::uint64_t overflowing(const GroupNeeds& needs) {
    std::uint64_t bytes = 0;
    for (const Amount& amount : needs.amounts) {
        std::uint64_t places = 0;
        for (std::int32_t column : needs.holding[amount.holders])
            places += needs.capacities[static_cast<std::size_t>(column)];
        const std::uint64_t needers = needs.needing[amount.needers].size();
        const std::uint64_t outside = needers > places ? needers - places : 0;
        bytes += amount.bytes * ((outside + largest_capacity(needs) - 1) / largest_capacity(needs));
    }
    return bytes;
}

}  // namespace

GroupBound group_bound(const GroupNeeds& needs, const GroupColumns& given) {
    GroupBound bound = PlaceProblem{needs, given}.solve();
    bound.shared = paid(needs, bound);
    bound.overflowing = overflowing(needs);
    return bound;
}

}  // namespace tpx
