// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/migrate.hpp"
#include "cmd/migrate_ranks.hpp"
#include "cmd/output.hpp"

#include <filesystem>

namespace tpx::cli {

/// Throws an mpi::AgreedError unless --hold, if given, can be done on all hosts. Collective.
void check_hold(const mpi::Comm& comm, const MigrateRequest& options, const Team& team);

/// Does what --hold asks: on each host, starts `tpx hold` for the state in `folder`, of the ranks that `places` has
/// there. Throws an mpi::AgreedError with the status exit_after_commit if the state of a host cannot be held.
/// Collective.
void hold_state(const mpi::Comm& comm, const MigrateRequest& options, const Team& team,
                const std::filesystem::path& folder, const RankPlaces& places, Output& out);

}  // namespace tpx::cli
