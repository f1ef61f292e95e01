// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/profile/columns.hpp"
#include "lib/model/run.hpp"

#include <optional>
#include <vector>

namespace tpx::formats {

/// What holds for a run whose row does not say.
struct RunDefaults {
    std::optional<double> batch;
    double gpus_per_nic = 1;
    double cpus = 4;
};

/// The runs in `table`, by `columns` and, for what it does not mention, the columns of standard names. Throws Error
/// "FILE:LINE: column 'NAME': cause" for a column that is missing or unknown, a cell that cannot be read, a time that
/// is not positive or cannot be in seconds, or GPUs that do not fit the plan.
std::vector<Run> read_runs(const Table& table, const ColumnMap& columns, const RunDefaults& defaults);

/// GPUs on each host: "8", "8+8+4", "4x8" for four hosts of eight. Throws Error (usage) for anything else.
std::vector<int> parse_placement(std::string_view text);

/// "8+8+4", or "4x8" where all hosts have equally many.
std::string placement_text(const std::vector<int>& gpus);

}  // namespace tpx::formats
