// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hosts/migration.hpp"

namespace tpx::cli {

/// Sets the data position and the global batch of a job whose source is open. The position comes from the options or,
/// by default, from the source; it determines the batch. Without a position, the batch comes from the options. If only
/// the layout or only the position has a number of virtual nodes, the other gets the same number. Throws Error (usage)
/// if layout, batch and position contradict each other.
void add_data(Migration& job, const MigrateRequest& options);

/// Adds the file with the data position to the draft, unless the checkpoint is a single file.
void add_data_file(Migration& job);

}  // namespace tpx::cli
