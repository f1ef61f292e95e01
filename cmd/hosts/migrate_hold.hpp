// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hosts/migrate_ranks.hpp"
#include "cmd/hosts/migration.hpp"
#include "cmd/output/output.hpp"

#include <filesystem>

namespace tpx::cli {

/// Throws an mpi::AgreedError if an option contradicts --hold, or if a host cannot hold state under the name that
/// --hold gives it. Collective.
void check_hold_names(const mpi::Comm& comm, const MigrateRequest& options, const Team& team);

/// Throws Error if --hold is given, a host gets only some of the files, and the format cannot be held in parts. To be
/// called by a rank that has planned.
void check_hold_of_parts(const MigrateRequest& options, const Migration& job);

/// Throws Error unless, with --hold-device cuda, the GPUs of this host have room for the state that they will hold. To
/// be called by ranks that have planned; the first one of each host looks.
void check_hold_memory(const mpi::Comm& comm, const MigrateRequest& options, const Team& team, const Migration& job);

/// Whether the state that is to be held is new.
enum class HeldState { written, unchanged };

/// Does what --hold asks: on each host, starts `tpx hold` with the state in `folder` of the ranks that `places` puts on
/// this host. If that fails on any host, releases what the others hold and throws an mpi::AgreedError, with exit status
/// exit_after_commit if the state is new. Collective.
void hold_state(const mpi::Comm& comm, const MigrateRequest& options, const Team& team,
                const std::filesystem::path& folder, const RankPlaces& places, HeldState state, Output& out);

}  // namespace tpx::cli
