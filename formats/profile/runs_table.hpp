// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/profile/logs/training_log.hpp"
#include "formats/profile/table.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tpx::formats {

/// What the user says about all runs. It takes the place of what the logs say; empty or 0: not given.
struct GivenRunSettings {
    std::string model, gpu, plan, placement;
    int gpus = 0;
    int per_host = 0;
    int batch = 0;            ///< samples of a step
    int sequence_length = 0;  ///< tokens of a sample
};

/// Something that some rows lack, and how many of them.
struct MissingSetting {
    std::string name;    ///< in words: "GPU type"
    std::string option;  ///< that gives it
    std::size_t rows = 0;
};

/// A table of runs as tpx-throughput(5) describes it.
struct RunsTable {
    Table table;  ///< only columns that have a cell which is not empty
    std::vector<MissingSetting> missing;
    std::size_t used = 0;                         ///< steps, of all runs together
    std::size_t dropped = 0;                      ///< steps of warm-up
    std::vector<std::string> short_runs;          ///< left out, for they ended before their steps were steady
    std::vector<std::string> also_out_of_memory;  ///< rows with steady steps whose run ran out of memory as well
};

/// A row for each run in `logs`: the seconds of a step are the median of steady_steps(), or "OOM" where a job ran out
/// of memory before. Throws Error for a log without any run, or with runs alone that ended too early.
RunsTable runs_table(std::span<const TrainingLog> logs, const GivenRunSettings& given);

/// `table` as CSV with a header.
std::string csv_text(const Table& table);

}  // namespace tpx::formats
