// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/managed_source.hpp"

namespace tpx::cli {

/// Whether a run only reads the stores: an export, or a run that prints the current state. Then it does not keep other
/// runs from changing them.
bool only_reads(const MigrateRequest& options);

/// The lock of the store of this host.
struct StoreLock {
    bool is_held = false;  ///< the same on all ranks, although only one of each host has the lock
    Fd lock;
};

/// Locks the store of this host: for a run that changes it, until the result is destroyed, and creates it. A run that
/// only reads gets locks so that it can end an interrupted switch, or none on all hosts if another run changes a
/// store: then no switch is interrupted. Other runs throw an mpi::AgreedError in this case. Collective.
StoreLock lock_store(const mpi::Comm& comm, const mpi::Comm& host, const NodeStore& store,
                     const MigrateRequest& options);

/// Keeps other runs from removing the current state of this host until the result is destroyed. Throws an
/// mpi::AgreedError if the state is gone. Collective.
Fd use_current(const Managed& run);

}  // namespace tpx::cli
