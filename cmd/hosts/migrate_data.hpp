// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hosts/migration.hpp"

namespace tpx::cli {

/// Sets the data position and the global batch of a job whose source is open. They come from the options or, if these
/// have no data position, from the one in the source. If only the layout or only the data position has a number of
/// virtual nodes, the other gets the same number. Throws Error (usage) if layout, batch and position contradict each
/// other.
void add_data(Migration& job, const MigrateRequest& options);

/// Adds the file with the data position to the draft, unless the checkpoint is a single file.
void add_data_file(Migration& job);

}  // namespace tpx::cli
