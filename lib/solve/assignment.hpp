// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace tpx {

/// What is gained when a row and a column meet.
struct Gain {
    std::uint32_t row = 0;
    std::uint32_t column = 0;
    std::uint64_t gain = 0;
};

/// Rows that want columns, each its own. A row fits a column that has at least its size. Row and column gain what their
/// classes gain and, on top, what they gain themselves; gains that are given several times add up.
struct Problem {
    struct Member {
        std::uint32_t size = 1;
        std::uint32_t kind = 0;  ///< its class; members of a class have one size
    };
    std::vector<Member> rows;
    std::vector<Member> columns;
    std::vector<Gain> kinds;           ///< of classes that have members
    std::vector<Gain> gains;           ///< of rows and columns; only for those that fit
    std::vector<std::uint32_t> given;  ///< for each row a column that it fits, all different
    std::vector<bool> wanted;          ///< columns that must get a row: among the given ones. Empty: none
};

/// The most that can be gained, with the prices that prove it: row price + column price <= -gain for all that fit, with
/// equality where they meet; column prices are at most 0, and 0 without a row, but for wanted columns: any.
struct Assignment {
    std::vector<std::uint32_t> columns;  ///< of each row
    std::vector<std::int64_t> row_prices;
    std::vector<std::int64_t> column_prices;
};

/// Solves `problem`; among equally good solutions one that leaves most rows on the given columns. All gains of a row
/// must add up to less than 2^62. Time and memory go with the rows, columns and gains given, never rows times columns.
Assignment assign(const Problem& problem);

}  // namespace tpx
