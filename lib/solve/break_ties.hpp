// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace tpx {

/// Rows that want columns, each its own, where some pairs are equally good.
struct Ties {
    std::vector<std::vector<double>> seconds;  ///< of each row and column; negative: not one of those pairs
    std::vector<bool> required;                ///< columns that must get a row
    std::vector<std::uint32_t> given;          ///< for each row a column; required ones are among them
};

/// For each row a column, such that the pair that takes longest takes as short as can be. Rows keep the columns that
/// they are given where that is possible without search.
std::vector<std::uint32_t> break_ties(const Ties& ties);

}  // namespace tpx
