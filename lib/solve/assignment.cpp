// SPDX-License-Identifier: Apache-2.0
#include "lib/solve/assignment.hpp"

#include "lib/solve/simplex.hpp"

#include <algorithm>

// Rows are nodes that supply one unit each; columns are nodes that consume one. A unit flows from a row directly to a
// column for which the row has a gain of its own; or through the class of the row and the class of a column; or,
// without a gain, from the class of the row to the node of the smallest column size that it fits, on to larger sizes,
// and to any class of columns of that size. One more node, `nobody`, supplies the columns that get no row.

namespace tpx {
namespace {

using Cost = Simplex::Cost;

// Costs measure gains in steps that are larger than the sum of all tie-breaking costs.
constexpr int step_bits = 40;
constexpr Cost step = Cost{1} << step_bits;

std::vector<Gain> summed(std::vector<Gain> gains) {
    std::ranges::sort(
        gains, [](const Gain& a, const Gain& b) { return a.row != b.row ? a.row < b.row : a.column < b.column; });
    std::size_t count = 0;
    for (const Gain& gain : gains) {
        if (count != 0 && gains[count - 1].row == gain.row && gains[count - 1].column == gain.column)
            gains[count - 1].gain += gain.gain;
        else
            gains[count++] = gain;
    }
    gains.resize(count);
    return gains;
}

// The size of each class, or 0 for a number that no member has.
std::vector<std::uint32_t> class_sizes(const std::vector<AssignmentProblem::Member>& members) {
    std::vector<std::uint32_t> sizes;
    for (const AssignmentProblem::Member& member : members) {
        if (member.kind >= sizes.size()) sizes.resize(member.kind + 1);
        sizes[member.kind] = member.size;
    }
    return sizes;
}

std::vector<std::uint32_t> distinct_sizes(const std::vector<AssignmentProblem::Member>& members) {
    std::vector<std::uint32_t> sizes;
    for (const AssignmentProblem::Member& member : members) {
        if (sizes.empty() || sizes.back() != member.size) sizes.push_back(member.size);
    }
    std::ranges::sort(sizes);
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return sizes;
}

class Solver {
public:
    explicit Solver(const AssignmentProblem& problem)
        : problem_{problem},
          row_sizes_{class_sizes(problem.rows)},
          column_sizes_{class_sizes(problem.columns)},
          sizes_{distinct_sizes(problem.columns)},
          kinds_{summed(problem.kinds)},
          first_column_{static_cast<std::uint32_t>(problem.rows.size())},
          first_row_kind_{first_column_ + static_cast<std::uint32_t>(problem.columns.size())},
          first_column_kind_{first_row_kind_ + static_cast<std::uint32_t>(row_sizes_.size())},
          first_size_{first_column_kind_ + static_cast<std::uint32_t>(column_sizes_.size())},
          nobody_{first_size_ + static_cast<std::uint32_t>(sizes_.size())},
          flow_{nobody_ + 1} {}

    Assignment run() {
        add_own_gains();
        add_kinds();
        add_sizes();
        for (std::uint32_t c = 0; c < problem_.columns.size(); ++c)
            arc(first_column_kind_ + problem_.columns[c].kind, first_column_ + c, 0, 0);
        add_nobody();
        flow_.solve();
        return {columns(), prices(0, first_column_, -1), prices(first_column_, first_row_kind_, 1)};
    }

private:
    void arc(std::uint32_t from, std::uint32_t to, std::uint64_t gain, int tie, std::int64_t flow = 0) {
        flow_.add_arc(from, to, -step * static_cast<Cost>(gain) + tie, flow);
        ++arcs_;
    }
    void add_own_gains();
    void add_kinds();
    void add_sizes();
    void add_nobody();
    std::uint64_t kind_gain(std::uint32_t row, std::uint32_t column) const;
    std::uint32_t size_node(std::uint32_t size) const {
        return first_size_ + static_cast<std::uint32_t>(std::ranges::lower_bound(sizes_, size) - sizes_.begin());
    }
    std::vector<std::uint32_t> columns() const;
    std::vector<std::int64_t> prices(std::uint32_t begin, std::uint32_t end, int sign) const;

    const AssignmentProblem& problem_;
    std::vector<std::uint32_t> row_sizes_;  // by class
    std::vector<std::uint32_t> column_sizes_;
    std::vector<std::uint32_t> sizes_;  // of columns, ascending
    std::vector<Gain> kinds_;
    std::uint32_t first_column_;
    std::uint32_t first_row_kind_;
    std::uint32_t first_column_kind_;
    std::uint32_t first_size_;
    std::uint32_t nobody_;
    Simplex flow_;
    std::uint32_t arcs_ = 0;
};

std::uint64_t Solver::kind_gain(std::uint32_t row, std::uint32_t column) const {
    const std::pair wanted{problem_.rows[row].kind, problem_.columns[column].kind};
    const auto found = std::ranges::lower_bound(kinds_, wanted, {}, [](const Gain& g) {
        return std::pair{g.row, g.column};
    });
    return found != kinds_.end() && std::pair{found->row, found->column} == wanted ? found->gain : 0;
}

void Solver::add_own_gains() {
    std::vector<Gain> gains = problem_.gains;
    for (std::uint32_t row = 0; row < problem_.given.size(); ++row) gains.push_back({row, problem_.given[row], 0});
    for (const Gain& own : summed(std::move(gains))) {
        const bool given = problem_.given[own.row] == own.column;
        arc(own.row, first_column_ + own.column, own.gain + kind_gain(own.row, own.column), given ? 0 : 1,
            given ? 1 : 0);
    }
}

void Solver::add_kinds() {
    for (std::uint32_t row = 0; row < problem_.rows.size(); ++row)
        arc(row, first_row_kind_ + problem_.rows[row].kind, 0, 1);
    for (const Gain& pair : kinds_) {
        if (row_sizes_[pair.row] <= column_sizes_[pair.column])
            arc(first_row_kind_ + pair.row, first_column_kind_ + pair.column, pair.gain, 0);
    }
}

void Solver::add_sizes() {
    for (std::uint32_t kind = 0; kind < row_sizes_.size(); ++kind)
        arc(first_row_kind_ + kind, size_node(row_sizes_[kind]), 0, 0);
    for (std::uint32_t i = 1; i < sizes_.size(); ++i) arc(first_size_ + i - 1, first_size_ + i, 0, 0);
    for (std::uint32_t kind = 0; kind < column_sizes_.size(); ++kind)
        arc(size_node(column_sizes_[kind]), first_column_kind_ + kind, 0, 0);
}

void Solver::add_nobody() {
    std::vector<bool> taken(problem_.columns.size());
    for (std::uint32_t column : problem_.given) taken[column] = true;
    for (std::uint32_t c = 0; c < problem_.columns.size(); ++c) {
        if (problem_.wanted.empty() || !problem_.wanted[c])
            flow_.add_arc(nobody_, first_column_ + c, 0, taken[c] ? 0 : 1);
    }
}

// Follows the flow: the arcs into a node were added before the arcs out of it.
std::vector<std::uint32_t> Solver::columns() const {
    std::vector<std::vector<std::uint32_t>> rows_in(nobody_);
    for (std::uint32_t row = 0; row < first_column_; ++row) rows_in[row].push_back(row);
    for (std::uint32_t a = 0; a < arcs_; ++a) {
        std::vector<std::uint32_t>& from = rows_in[flow_.from(a)];
        const auto leaving = from.end() - flow_.flow(a);
        rows_in[flow_.to(a)].insert(rows_in[flow_.to(a)].end(), leaving, from.end());
        from.erase(leaving, from.end());
    }
    std::vector<std::uint32_t> columns(first_column_);
    for (std::uint32_t node = first_column_; node < first_row_kind_; ++node) {
        for (std::uint32_t row : rows_in[node]) columns[row] = node - first_column_;
    }
    return columns;
}

// In whole gains, rounded: tie-breaking costs add less than half a step to each side of any inequality.
std::vector<std::int64_t> Solver::prices(std::uint32_t begin, std::uint32_t end, int sign) const {
    std::vector<std::int64_t> prices;
    for (std::uint32_t node = begin; node < end; ++node) {
        const Cost price = sign * (flow_.price(node) - flow_.price(nobody_)) + step / 2;
        prices.push_back(static_cast<std::int64_t>(price >> step_bits));
    }
    return prices;
}

}  // namespace

Assignment assign(const AssignmentProblem& problem) { return Solver{problem}.run(); }

}  // namespace tpx
