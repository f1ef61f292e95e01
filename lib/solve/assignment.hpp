// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace tpx {

/// The gain of assigning a row to a column.
struct Gain {
    std::uint32_t row = 0;
    std::uint32_t column = 0;
    std::uint64_t gain = 0;
};

/// An assignment problem: each row needs a column of its own. A row fits a column of at least its size. An assigned
/// pair gains what its classes gain plus what the pair itself gains; gains that are listed several times add up.
struct AssignmentProblem {
    struct Member {
        std::uint32_t size = 1;
        std::uint32_t kind = 0;  ///< its class; members of a class have the same size
    };
    std::vector<Member> rows;
    std::vector<Member> columns;
    std::vector<Gain> kinds;           ///< gains of pairs of classes that have members
    std::vector<Gain> gains;           ///< gains of pairs of a row and a column that fit
    std::vector<std::uint32_t> given;  ///< initial assignment: for each row a column that it fits, all different
    std::vector<bool> wanted;          ///< columns that must get a row, all of them among `given`; empty: none
};

/// An assignment with the largest total gain, and the prices that prove it: row price + column price <= -gain for all
/// pairs that fit, with equality for assigned pairs; column prices are at most 0, and 0 for columns without a row.
/// Wanted columns may have any price.
struct Assignment {
    std::vector<std::uint32_t> columns;  ///< of each row
    std::vector<std::int64_t> row_prices;
    std::vector<std::int64_t> column_prices;
};

/// Solves `problem`; among equally good solutions, returns one that keeps the most rows on their given columns. All
/// gains of a row must add up to less than 2^62. Time and memory grow with the number of rows, columns and listed
/// gains, never with rows times columns.
Assignment assign(const AssignmentProblem& problem);

}  // namespace tpx
