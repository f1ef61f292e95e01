// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/profile/columns.hpp"
#include "formats/profile/placement.hpp"
#include "lib/model/run.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace tpx::formats {

/// What holds for a run whose row does not say.
struct RunDefaults {
    std::optional<double> batch;
    double gpus_per_nic = 1;
    double cpus = 4;
    double sequence = 0;  ///< tokens of a sample; 0: unknown
};

/// The runs of a table, and where those rows are that say that nothing ran: "FILE:LINE".
struct RunRows {
    std::vector<Run> runs;
    std::vector<std::string> failed;
    std::size_t expert_parallel = 0;  ///< runs with expert parallelism, which the throughput model leaves out
};

/// The runs in `table`, by `columns` and, for what it does not mention, the columns of standard names. Throws Error
/// "FILE:LINE: column 'NAME': cause" for a column that is missing or unknown, a cell that cannot be read, a time that
/// is negative or cannot be in seconds, or GPUs that do not fit the plan. A row did not run if its time or rate is
/// empty, 0, or a word such as OOM.
RunRows read_run_rows(const Table& table, const ColumnMap& columns, const RunDefaults& defaults);

/// The same, without the rows that did not run.
std::vector<Run> read_runs(const Table& table, const ColumnMap& columns, const RunDefaults& defaults);

}  // namespace tpx::formats
