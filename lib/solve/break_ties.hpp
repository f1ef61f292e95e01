// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace tpx {

/// Rows that each need a column of their own, and the pairs that are equally good otherwise.
struct Ties {
    std::vector<std::vector<double>> seconds;  ///< by row and column; negative: not one of those pairs
    std::vector<bool> required;                ///< columns that must get a row
    std::vector<std::uint32_t> given;          ///< for each row a column; required ones are among them
};

/// For each row a column, such that the slowest pair is as fast as possible. Rows keep their given columns where that
/// needs no search.
std::vector<std::uint32_t> break_ties(const Ties& ties);

}  // namespace tpx
