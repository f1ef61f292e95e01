// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/migrate_ranks.hpp"
#include "lib/exec/mpi.hpp"

#include <string>

namespace tpx::cli {

/// Throws an mpi::AgreedError if the file of --launch cannot be written, or is in the way of stores or outputs.
/// Collective.
void check_launch(const mpi::Comm& comm, const MigrateRequest& options);

/// Writes the script of --launch, if it is given: it starts the ranks where `places` puts them, and tells them their
/// state in `pattern`, the folder on each host. The state is in place: throws an mpi::AgreedError with the status
/// exit_after_commit. Collective.
void write_launch(const mpi::Comm& comm, const MigrateRequest& options, const RankPlaces& places,
                  const std::string& pattern);

}  // namespace tpx::cli
