// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace tpx {

/// Minimise `cost` x subject to `rows` x = `limits` and x >= 0. No row is a sum of others.
struct EqualityProgram {
    std::vector<double> cost;
    std::vector<std::vector<double>> rows;
    std::vector<double> limits;
};

/// An optimum that is no vertex where there are many: the end of the path of the homogeneous self-dual method of
/// Andersen and Andersen (2000) with Mehrotra's corrector, from the point where all is 1, to a relative error of 1e-8.
/// SciPy's linprog had this method for years, so that schedulers that used it can be played. Empty when rounding keeps
/// it from getting there.
std::vector<double> interior_optimum(const EqualityProgram& program);

}  // namespace tpx
