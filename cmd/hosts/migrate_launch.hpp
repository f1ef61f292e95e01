// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hosts/migrate_ranks.hpp"
#include "lib/exec/mpi.hpp"

#include <string>

namespace tpx::cli {

/// The folders that ranks use on each host; "{host}" stands for the name of the host.
struct LaunchPatterns {
    std::string state;
    std::string data = {};  ///< empty: not given
};

/// Throws an mpi::AgreedError if the script of --launch cannot be written, if it would be inside the state's folder of
/// a host, or if a script cannot contain the name or a folder of a host. Collective.
void check_launch(const mpi::Comm& comm, const MigrateRequest& options, std::span<const Host> hosts,
                  const LaunchPatterns& patterns);

/// Writes the script of --launch, if given. It starts each rank on its host and device of `places`, and sets TPX_STATE
/// and TPX_DATA to the folders of its host in `patterns`. Throws an mpi::AgreedError with exit_after_commit if it
/// cannot be written. Collective.
void write_launch(const mpi::Comm& comm, const MigrateRequest& options, const RankPlaces& places,
                  const LaunchPatterns& patterns);

}  // namespace tpx::cli
