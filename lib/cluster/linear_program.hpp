// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace tpx {

/// Maximise `gain` x subject to `rows` x <= `limits` and x >= 0.
struct LinearProgram {
    std::vector<double> gain;
    std::vector<std::vector<double>> rows;
    std::vector<double> limits;  ///< none below 0
};

struct LinearSolution {
    std::vector<double> x;
    std::vector<double> prices;  ///< of the rows: what a little more of each limit is worth; proves the optimum
    double value = 0;
};

/// An optimal vertex, always the same one, by the simplex method on a dense tableau. Throws Error when there is no
/// largest value.
LinearSolution solve(const LinearProgram& program);

}  // namespace tpx
