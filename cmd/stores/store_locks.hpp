// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/output/output.hpp"
#include "cmd/stores/managed_source.hpp"

#include <string>
#include <vector>

namespace tpx::cli {

/// The lock of the store of this host. If the run has created the store and puts nothing into it, the store is removed
/// before the lock is released.
struct StoreLock {
    bool is_held = false;  ///< the same on all ranks, although only one of each host has the lock
    Fd lock;
    CreatedStore created;
};

/// The stores of a run: locked if the run changes them; otherwise marked as in use, so that no other run removes their
/// current state.
struct OpenStores {
    StoreLock lock;
    Fd used;
    StoreSurvey survey;
};

/// Locks the stores, ends a switch that was interrupted, and finds the current state. A run that changes the stores
/// creates those that are missing. A run that only reads, or a dry run, does not wait for other runs, and locks the
/// stores only for a moment. `outdated` is as for survey_stores(). Throws an mpi::AgreedError. Collective.
OpenStores open_stores(const mpi::Comm& comm, const mpi::Comm& host, const Team& team, const NodeStore& store,
                       const MigrateRequest& options, const std::vector<std::string>& outdated, Output& out);

}  // namespace tpx::cli
