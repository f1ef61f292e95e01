// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/linear_program.hpp"

#include "lib/core/error.hpp"

#include <cassert>
#include <cmath>

namespace tpx {
namespace {

constexpr double rounding = 1e-9;

class Tableau {
public:
    explicit Tableau(const LinearProgram& program)
        : rows_{program.rows.size()}, columns_{program.gain.size()}, basis_(rows_), cells_(rows_ + 1) {
        const std::size_t width = columns_ + rows_ + 1;
        for (std::size_t i = 0; i < rows_; ++i) {
            assert(program.limits[i] >= 0 && program.rows[i].size() == columns_);
            cells_[i] = program.rows[i];
            cells_[i].resize(width);
            cells_[i][columns_ + i] = 1;
            cells_[i].back() = program.limits[i];
            basis_[i] = columns_ + i;
        }
        for (const double gain : program.gain) cells_[rows_].push_back(-gain);
        cells_[rows_].resize(width);
    }

    LinearSolution solve() {
        std::size_t steps = 0;
        for (std::size_t in = entering(steps); in != none; in = entering(++steps)) pivot(leaving(in), in);
        LinearSolution solution{std::vector<double>(columns_), {}, cells_[rows_].back()};
        for (std::size_t i = 0; i < rows_; ++i)
            if (basis_[i] < columns_) solution.x[basis_[i]] = cells_[i].back();
        for (std::size_t i = 0; i < rows_; ++i) solution.prices.push_back(cells_[rows_][columns_ + i]);
        return solution;
    }

private:
    static constexpr std::size_t none = ~std::size_t{0};

    // The column that gains most; after many steps, the first that gains, which cannot go in circles (Bland).
    std::size_t entering(std::size_t steps) const {
        const bool careful = steps > 10 * (rows_ + columns_);
        std::size_t best = none;
        double most = -rounding;
        for (std::size_t j = 0; j < columns_ + rows_; ++j) {
            if (!(cells_[rows_][j] < most)) continue;
            best = j;
            most = cells_[rows_][j];
            if (careful) break;
        }
        return best;
    }

    std::size_t leaving(std::size_t in) const {
        std::size_t best = none;
        double least = HUGE_VAL;
        for (std::size_t i = 0; i < rows_; ++i) {
            if (!(cells_[i][in] > rounding)) continue;
            const double ratio = cells_[i].back() / cells_[i][in];
            const bool same = best != none && std::abs(ratio - least) <= 1e-12;
            if (same ? basis_[i] < basis_[best] : ratio < least) best = i, least = ratio;
        }
        if (best == none) throw failure("linear program: there is no largest value");
        return best;
    }

    void pivot(std::size_t row, std::size_t column) {
        const double divisor = cells_[row][column];
        for (double& cell : cells_[row]) cell /= divisor;
        for (std::size_t i = 0; i <= rows_; ++i) {
            const double factor = cells_[i][column];
            if (i == row || factor == 0) continue;
            for (std::size_t j = 0; j < cells_[i].size(); ++j) cells_[i][j] -= factor * cells_[row][j];
        }
        basis_[row] = column;
    }

    std::size_t rows_, columns_;
    std::vector<std::size_t> basis_;          // the variable of each row
    std::vector<std::vector<double>> cells_;  // the last row is what is still to gain
};

}  // namespace

LinearSolution solve(const LinearProgram& program) { return Tableau{program}.solve(); }

}  // namespace tpx
