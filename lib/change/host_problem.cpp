// SPDX-License-Identifier: Apache-2.0
#include "lib/change/host_problem.hpp"

#include <algorithm>
#include <map>

namespace tpx {
namespace {

// The most pairs of a block and a host for which an amount gets separate gains.
constexpr std::size_t few_pairs = 16;

using Numbers = std::vector<std::int32_t>;

void sort_unique(Numbers& numbers) {
    std::ranges::sort(numbers);
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

Numbers sets_of(std::span<const Amount> amounts, std::uint32_t Amount::*side) {
    Numbers sets;
    for (const Amount& amount : amounts) sets.push_back(static_cast<std::int32_t>(amount.*side));
    sort_unique(sets);
    return sets;
}

// Gives the same class to members of the same size that are in the same sets of `sets`.
void classify(std::vector<AssignmentProblem::Member>& members, const RankSets& all_sets, const Numbers& sets) {
    std::vector<Numbers> traits;
    for (const AssignmentProblem::Member& member : members) traits.push_back({static_cast<std::int32_t>(member.size)});
    for (std::int32_t set : sets) {
        for (std::int32_t member : all_sets[static_cast<std::uint32_t>(set)]) traits[member].push_back(set);
    }
    std::map<Numbers, std::uint32_t> numbers;
    for (std::size_t i = 0; i < members.size(); ++i) {
        const auto next = static_cast<std::uint32_t>(numbers.size());
        members[i].kind = numbers.try_emplace(std::move(traits[i]), next).first->second;
    }
}

// The classes of the members of each set in `sets`.
std::map<std::uint32_t, Numbers> classes(const std::vector<AssignmentProblem::Member>& members,
                                         const RankSets& all_sets, const Numbers& sets) {
    std::map<std::uint32_t, Numbers> result;
    for (std::int32_t set : sets) {
        Numbers& found = result[static_cast<std::uint32_t>(set)];
        for (std::int32_t member : all_sets[static_cast<std::uint32_t>(set)])
            found.push_back(static_cast<std::int32_t>(members[member].kind));
        sort_unique(found);
    }
    return result;
}

void add_pairs(std::span<const std::int32_t> rows, std::span<const std::int32_t> columns, std::uint64_t bytes,
               std::vector<Gain>& gains) {
    for (std::int32_t row : rows) {
        for (std::int32_t column : columns)
            gains.push_back({static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(column), bytes});
    }
}

}  // namespace

AssignmentProblem host_problem(std::span<const Amount> amounts, const RankSets& holding, const RankSets& needing,
                               std::vector<AssignmentProblem::Member> rows,
                               std::vector<AssignmentProblem::Member> columns) {
    AssignmentProblem problem{std::move(rows), std::move(columns), {}, {}, {}, {}};
    std::vector<Amount> wide;
    for (const Amount& amount : amounts) {
        const auto on = holding[amount.holders];
        const auto by = needing[amount.needers];
        if (on.size() == problem.columns.size()) continue;
        if (on.size() * by.size() > few_pairs)
            wide.push_back(amount);
        else
            add_pairs(by, on, amount.bytes, problem.gains);
    }
    std::erase_if(problem.gains,
                  [&](const Gain& gain) { return problem.rows[gain.row].size > problem.columns[gain.column].size; });

    const Numbers needed = sets_of(wide, &Amount::needers);
    const Numbers held = sets_of(wide, &Amount::holders);
    classify(problem.rows, needing, needed);
    classify(problem.columns, holding, held);
    const auto row_classes = classes(problem.rows, needing, needed);
    const auto column_classes = classes(problem.columns, holding, held);
    for (const Amount& amount : wide)
        add_pairs(row_classes.at(amount.needers), column_classes.at(amount.holders), amount.bytes, problem.kinds);
    return problem;
}

}  // namespace tpx
