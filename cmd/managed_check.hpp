// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/managed_source.hpp"
#include "lib/exec/publish.hpp"

#include <exception>
#include <utility>

// How tpx migrate --store compares the current state with its checksums: before it moves the state, or meanwhile.
namespace tpx::cli {

/// Thrown on all ranks if damaged files of the current state are found while it moves: the migration must be planned
/// again without these files.
struct DamagedState : std::exception {
    explicit DamagedState(StoreCheck found) : check{std::move(found)} {}
    const char* what() const noexcept override { return "files of the current state are damaged"; }

    StoreCheck check;
};

/// Compares the files of the current state with their checksums; a dry run, with their sizes. Collective.
StoreCheck check_current(const Managed& run);

/// Compares the sizes of the files of the current state with the manifest. Collective.
StoreCheck check_sizes(const Managed& run);

/// Whether the current state is compared with its checksums while it moves, with a RunningStateCheck: not if it must be
/// known to be intact before, or if reads have a limit.
bool checks_meanwhile(const MigrateRequest& options);

/// How many threads of each rank compare files. Collective.
int threads_of_check(const Managed& run);

/// Waits for the check that runs meanwhile, if there is one, and throws DamagedState if it has found damaged files.
/// Collective.
void require_undamaged(const Managed& run);

/// The same for files in `partial`, which some of the ranks, `owners`, write together. If damaged files were read,
/// removes `partial`, also if an earlier run has written to it. Collective.
void require_undamaged(const Managed& run, const mpi::Comm& owners, PartialDirectory& partial);

/// Whether `error` can come from reading damaged files: not if a signal asked to stop.
inline bool can_be_damage(const Error& error) {
    return error.exit() != Exit::resumable && error.exit() != Exit::interrupted;
}

/// Runs `body`. If it fails although nothing asked to stop, and the check that runs meanwhile has found damaged files,
/// throws DamagedState instead. Collective.
template <class Body>
decltype(auto) naming_damage(const Managed& run, Body&& body) {
    try {
        return body();
    } catch (const mpi::AgreedError& error) {
        if (can_be_damage(error)) require_undamaged(run);
        throw;
    }
}

}  // namespace tpx::cli
