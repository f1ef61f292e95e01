// SPDX-License-Identifier: Apache-2.0
#include "lib/solve/assignment.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

using namespace tpx;

namespace {

std::mt19937 engine{2};

std::uint32_t below(std::uint64_t n) { return static_cast<std::uint32_t>(engine() % n); }

std::vector<AssignmentProblem::Member> random_members(std::size_t count) {
    // Three classes of size 1 and three of size 2.
    std::vector<AssignmentProblem::Member> members(count);
    for (AssignmentProblem::Member& member : members) {
        member.kind = below(6);
        member.size = 1 + member.kind / 3;
    }
    return members;
}

// There are at most as many rows as columns, and the given columns, in random order, fit.
AssignmentProblem random_problem(std::size_t most) {
    AssignmentProblem problem;
    problem.columns = random_members(1 + below(most));
    problem.rows = random_members(1 + below(problem.columns.size()));
    std::vector<std::uint32_t> order(problem.columns.size());
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), engine);
    for (std::uint32_t row = 0; row < problem.rows.size(); ++row) {
        problem.given.push_back(order[row]);
        if (problem.columns[order[row]].size == 1) problem.rows[row] = {1, below(3)};
    }
    const std::uint32_t large = below(2) == 0 ? 3 : 100;
    for (std::uint32_t i = below(20); i > 0; --i)
        problem.kinds.push_back({problem.rows[below(problem.rows.size())].kind,
                                 problem.columns[below(problem.columns.size())].kind, below(large)});
    for (std::uint64_t i = below(3 * most); i > 0; --i) {
        const Gain gain{below(problem.rows.size()), below(problem.columns.size()), below(large)};
        if (problem.rows[gain.row].size <= problem.columns[gain.column].size) problem.gains.push_back(gain);
    }
    if (below(3) == 0) {
        problem.wanted.resize(problem.columns.size());
        for (std::uint32_t column : problem.given) problem.wanted[column] = below(2) == 0;
    }
    return problem;
}

std::int64_t gain_of(const AssignmentProblem& problem, std::uint32_t row, std::uint32_t column) {
    std::uint64_t sum = 0;
    for (const Gain& own : problem.gains) sum += own.row == row && own.column == column ? own.gain : 0;
    for (const Gain& kind : problem.kinds) {
        if (kind.row == problem.rows[row].kind && kind.column == problem.columns[column].kind) sum += kind.gain;
    }
    return static_cast<std::int64_t>(sum);
}

void check_prices(const AssignmentProblem& problem, const Assignment& found) {
    std::vector<bool> used(problem.columns.size());
    for (std::uint32_t row = 0; row < problem.rows.size(); ++row) {
        REQUIRE_FALSE(used[found.columns[row]]);
        used[found.columns[row]] = true;
        REQUIRE(problem.rows[row].size <= problem.columns[found.columns[row]].size);
        for (std::uint32_t column = 0; column < problem.columns.size(); ++column) {
            if (problem.rows[row].size > problem.columns[column].size) continue;
            const std::int64_t sum = found.row_prices[row] + found.column_prices[column];
            REQUIRE(sum <= -gain_of(problem, row, column));
            if (found.columns[row] == column) REQUIRE(sum == -gain_of(problem, row, column));
        }
    }
    for (std::uint32_t column = 0; column < problem.columns.size(); ++column) {
        const bool wanted = !problem.wanted.empty() && problem.wanted[column];
        REQUIRE((used[column] || !wanted));
        REQUIRE((wanted || found.column_prices[column] <= 0));
        REQUIRE((used[column] || found.column_prices[column] == 0));
    }
}

using Score = std::pair<std::int64_t, int>;  // gained, rows on the given columns

Score score_of(const AssignmentProblem& problem, const std::vector<std::uint32_t>& columns) {
    Score score;
    for (std::uint32_t row = 0; row < columns.size(); ++row) {
        score.first += gain_of(problem, row, columns[row]);
        score.second += columns[row] == problem.given[row];
    }
    return score;
}

Score best_score(const AssignmentProblem& problem) {
    Score best{-1, 0};
    std::vector<std::uint32_t> columns;
    const std::function<void()> go = [&] {
        const auto row = static_cast<std::uint32_t>(columns.size());
        if (row == problem.rows.size()) {
            for (std::uint32_t column = 0; column < problem.wanted.size(); ++column) {
                if (problem.wanted[column] && std::ranges::find(columns, column) == columns.end()) return;
            }
            best = std::max(best, score_of(problem, columns));
            return;
        }
        for (std::uint32_t column = 0; column < problem.columns.size(); ++column) {
            if (problem.rows[row].size > problem.columns[column].size) continue;
            if (std::ranges::find(columns, column) != columns.end()) continue;
            columns.push_back(column);
            go();
            columns.pop_back();
        }
    };
    go();
    return best;
}

}  // namespace

TEST_CASE("no assignment gains more, and no equal one keeps more rows on the given columns") {
    for (int i = 0; i < 2000; ++i) {
        CAPTURE(i);
        const AssignmentProblem problem = random_problem(5);
        const Assignment found = assign(problem);
        check_prices(problem, found);
        CHECK(score_of(problem, found.columns) == best_score(problem));
    }
}

TEST_CASE("prices prove assignments with many rows") {
    for (int i = 0; i < 100; ++i) {
        CAPTURE(i);
        const AssignmentProblem problem = random_problem(80);
        check_prices(problem, assign(problem));
    }
}
