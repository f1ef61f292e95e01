// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/profile/row_reader.hpp"
#include "lib/model/execution_plan.hpp"

namespace tpx::formats {

/// The largest batch (samples per step) that a table of runs can contain.
inline constexpr double max_samples = 1 << 24;

/// Samples of a step, if the row has the samples of a micro-batch and the number of passes or micro-batches. `gpus` is
/// the number of GPUs that the row records, or 0.
std::optional<double> batch_of_passes(const RowReader& row, int gpus);

/// The execution plan of a row, from its column `plan` and those of single degrees. `gpus` is the number of GPUs that
/// the row records, or 0; `batch` is in samples of a step. Throws Error "FILE:LINE: column 'NAME': cause".
ExecutionPlan plan_of(const RowReader& row, int gpus, double batch);

}  // namespace tpx::formats
