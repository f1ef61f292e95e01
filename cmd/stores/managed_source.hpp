// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hosts/migration.hpp"
#include "cmd/output/output.hpp"
#include "cmd/stores/store_check.hpp"
#include "lib/exec/stop_signals.hpp"

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

// The source of tpx migrate --store: the managed stores, or a checkpoint that is imported.
namespace tpx::cli {

/// The ranks, options and stores of a run of tpx migrate --store.
struct ManagedRun {
    const mpi::Comm& comm;
    const mpi::Comm& host;  ///< the ranks of this host
    const MigrateRequest& options;
    const Team& team;
    const NodeStore& store;
    StoreSurvey survey;
    RateLimiter* rate_limiter = nullptr;         ///< limits the rates of --export; null: no limit
    std::optional<StopSignals>* stop = nullptr;  ///< signals that ask this run to stop; null or empty: none are handled
    CheckDuringMove* check = nullptr;            ///< of the current state; null if it was checked before the move

    /// The signal that asks to stop, for ExecOptions::cancelled; null if none are handled.
    const std::atomic<int>* signal() const { return stop != nullptr && *stop ? &(*stop)->signal() : nullptr; }
};

/// A planned migration, and the job and iteration of the state that it moves.
struct ManagedJob {
    Migration migration;
    std::string job;
    std::int64_t iteration = 0;
    std::string model;                   ///< see Manifest
    bool is_import = false;              ///< read from a checkpoint instead of the stores
    std::optional<MigrateResult> saved;  ///< with --within: what was done before to save files of leaving hosts
};

/// Plans the migration of the checkpoint at `path`, which is on shared storage or, if `path` contains "{host}", in a
/// plain folder on each host. Adds every file that is read to `record`, and seals it. Throws an mpi::AgreedError.
/// Collective.
ManagedJob plan_import(const ManagedRun& run, const std::string& path, MigrateTarget purpose, ReadRecord& record);

/// Whether plan_from_stores() plans on rank 0 only. True for a dry run, except with --within: there, all ranks need the
/// plan that saves the state of leaving hosts.
bool plans_on_first(const MigrateRequest& options);

/// Throws an mpi::AgreedError (no) that names the tensors of which no host has an intact copy, if there are any.
void require_intact(const ManagedRun& run, const StoreCheck& check);

/// Throws an mpi::AgreedError (no) unless, according to `check`, all hosts of the current state have all their files,
/// so that their ranks can start. Intact copies on other hosts do not count.
void require_on_hosts(const ManagedRun& run, const StoreCheck& check);

/// Plans the migration of the current state from its intact files or, if these lack tensors, from --fallback. Without
/// --fallback, throws an mpi::AgreedError (no) that names the tensors of which no host has an intact copy. If
/// plans_on_first(), ranks other than 0 may get an empty Migration. For a dry run, `to_be` lists files with the hosts
/// that would have them by then. Collective.
ManagedJob plan_from_stores(const ManagedRun& run, const StoreCheck& check, MigrateTarget purpose, ReadRecord& record,
                            Output& out, const std::vector<StoredFile>& to_be = {});

}  // namespace tpx::cli
