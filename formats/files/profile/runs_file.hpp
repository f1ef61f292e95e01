// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/profile/columns.hpp"
#include "formats/files/profile/placement.hpp"
#include "lib/model/run.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tpx::formats {

/// Values for runs whose rows do not contain them.
struct RunDefaults {
    std::optional<double> batch;
    double gpus_per_nic = 1;
    double cpus = 4;
    double sequence = 0;  ///< tokens of a sample; 0: unknown
    double flops = 0;     ///< of a sample, forward and backward; 0: unknown
};

/// The runs of a table, and the positions "FILE:LINE" of rows that did not run.
struct RunRows {
    std::vector<Run> runs;
    std::vector<Run> memory_runs;              ///< rows that have memory but no time; their `seconds` are 0
    std::vector<std::string> unknown_columns;  ///< that hold no quantity
    std::vector<std::pair<std::string, std::string>> aliases;  ///< columns that are read as a quantity, which follows
    std::string gpu;                                           ///< name of the GPU type; empty: unknown
    std::vector<std::string> failed;
    bool has_status = false;     ///< whether the table has a column of quantity `status`
    std::size_t from_flops = 0;  ///< runs whose time is computed from TFLOP/s
    std::size_t expert_parallel =
        0;  ///< runs with expert parallelism, whose communication the throughput model ignores
};

/// Tokens per sample in the column for them; unset if there is no such column. Throws Error if rows have different
/// numbers, and as read_run_rows().
std::optional<double> common_sequence(const Table& table, const ColumnMap& columns);

/// The runs in `table`, by `columns` and, for what it does not mention, the columns of standard names. Throws Error
/// "FILE:LINE: column 'NAME': cause" for a column that is missing or whose meaning is doubtful, a cell that cannot be
/// read, a time that is negative or cannot be in seconds, or GPUs that do not fit the plan. A row did not run if its
/// time or rate is empty, 0, or a word such as OOM, unless it has memory and its time is merely missing.
RunRows read_run_rows(const Table& table, const ColumnMap& columns, const RunDefaults& defaults);

/// The same, without the rows that did not run.
std::vector<Run> read_runs(const Table& table, const ColumnMap& columns, const RunDefaults& defaults);

}  // namespace tpx::formats
