// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/images.hpp"
#include "lib/solve/assignment.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// The assignment of blocks (rows) to hosts (columns) that leaves most bytes where they are: a gain is what a block
/// needs and a host holds, without what all hosts hold. `rows` and `columns` give sizes; `holding` and `needing` are
/// sets of columns and of rows, which `amounts` number. What few blocks need of what few hosts hold are gains of each
/// pair of them; the rest makes classes of blocks that need the same and of hosts that hold the same.
Problem host_problem(std::span<const Amount> amounts, const RankSets& holding, const RankSets& needing,
                     std::vector<Problem::Member> rows, std::vector<Problem::Member> columns);

}  // namespace tpx
