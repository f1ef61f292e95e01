// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/migrate_ranks.hpp"
#include "lib/exec/mpi.hpp"

#include <string>

namespace tpx::cli {

/// Throws an mpi::AgreedError if the script of --launch could not be written: if its file is inside the folder of a
/// host in `pattern`, or has a name or folder of a host that a script cannot contain. Collective.
void check_launch(const mpi::Comm& comm, const MigrateRequest& options, std::span<const Host> hosts,
                  const std::string& pattern);

/// Writes the script of --launch, if given. It starts each rank on its host and device of `places` and sets TPX_STATE
/// to the rank's folder in `pattern`. Throws an mpi::AgreedError with exit_after_commit if it cannot be written.
/// Collective.
void write_launch(const mpi::Comm& comm, const MigrateRequest& options, const RankPlaces& places,
                  const std::string& pattern);

}  // namespace tpx::cli
