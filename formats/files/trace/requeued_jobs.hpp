// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/profile/table.hpp"

#include <cstddef>

namespace tpx::formats {

/// What merge_requeues() found in a job log of Slurm.
struct Requeues {
    std::size_t merged = 0;   ///< jobs that ran several times, as Slurm requeued them
    std::size_t renamed = 0;  ///< jobs that have the ID of an earlier job
};

/// Merges the rows that `sacct -D` prints for each run of a job that Slurm requeued into one row, submitted at the time
/// of the first run; its duration is the sum of its runs. A row whose ID belongs to an earlier job, because the IDs of
/// the cluster were reset, gets another name, such as "101#2". Changes only tables with the columns JobID and ReqTRES
/// or AllocTRES.
Requeues merge_requeues(Table& table);

}  // namespace tpx::formats
