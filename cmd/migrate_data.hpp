// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/migrate.hpp"

namespace tpx::cli {

/// Adds the data position and the global batch to a job whose source is open: those of the options, or the position
/// that the source has. A layout without virtual nodes gets those of the position. Throws Error (usage) when layout,
/// batch and position contradict each other.
void add_data(Migration& job, const MigrateRequest& options);

/// Adds the file with the data position to the draft, unless the checkpoint is a single file.
void add_data_file(Migration& job);

}  // namespace tpx::cli
