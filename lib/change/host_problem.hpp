// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/mapped_rank_sets.hpp"
#include "lib/solve/assignment.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// The problem of assigning blocks (rows) to hosts (columns) so that most bytes stay where they are. A gain is the
/// bytes that a block needs and a host holds, without those that all hosts hold. `rows` and `columns` contain sizes;
/// the sets in `amounts` are numbers in `holding` (sets of columns) and `needing` (sets of rows). Amounts of few blocks
/// and few hosts become gains of each pair; the others become gains between classes of blocks that need the same and of
/// hosts that hold the same.
AssignmentProblem host_problem(std::span<const Amount> amounts, const RankSets& holding, const RankSets& needing,
                               std::vector<AssignmentProblem::Member> rows,
                               std::vector<AssignmentProblem::Member> columns);

}  // namespace tpx
