// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/profile/logs/training_log.hpp"
#include "formats/files/profile/table.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tpx::formats {

/// Settings from the command line; they override the logs. Empty or 0: not set.
struct RunOverrides {
    std::string model, gpu, plan, placement;
    int gpus = 0;
    int per_host = 0;
    int batch = 0;            ///< samples per step
    int sequence_length = 0;  ///< tokens per sample
};

/// A setting that is missing in some rows.
struct MissingSetting {
    std::string name;      ///< in words: "GPU type"
    std::string option;    ///< the option that sets it
    std::size_t rows = 0;  ///< number of rows without it
};

/// A table of runs as tpx-throughput(5) describes it.
struct RunsTable {
    Table table;  ///< without columns that are empty in all rows
    std::vector<MissingSetting> missing;
    std::size_t used = 0;                         ///< steps after warm-up, of all runs
    std::size_t dropped = 0;                      ///< warm-up steps, of all runs
    std::vector<std::string> short_runs;          ///< labels of runs skipped because no step was steady
    std::vector<std::string> without_steps;       ///< logs without step times, if other logs have rows
    std::vector<std::string> on_nvme;             ///< labels of runs skipped because they offload to NVMe drives
    std::vector<std::string> by_clock;            ///< labels of rows with the times between records
    std::vector<std::string> of_trained_tokens;   ///< labels of rows whose rate counts only tokens of the loss
    std::vector<std::string> also_out_of_memory;  ///< labels of rows with step times whose run also ran out of memory
};

/// Returns a row for each run in `logs`. Seconds per step are the median of steady_steps(), or "OOM" if the run ran out
/// of memory before. Throws Error if no log has a row, for a file that is not a training log, and for GPUs or layers
/// that the degrees of parallelism do not divide.
RunsTable runs_table(std::span<const TrainingLog> logs, const RunOverrides& overrides);

/// `table` as CSV with a header.
std::string csv_text(const Table& table);

}  // namespace tpx::formats
