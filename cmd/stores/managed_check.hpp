// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/stores/managed_source.hpp"
#include "lib/exec/publish.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

// How tpx migrate --store compares the current state with its checksums, before or while it moves the state.
namespace tpx::cli {

/// Thrown on all ranks if damaged files of the current state are found while it moves: the migration must be planned
/// again without these files.
struct DamagedState : std::exception {
    explicit DamagedState(StoreCheck found) : check{std::move(found)} {}
    const char* what() const noexcept override { return "files of the current state are damaged"; }

    StoreCheck check;
};

/// Compares the files of the current state with their checksums or, in a dry run, only with their sizes. Collective.
StoreCheck check_current(const ManagedRun& run);

/// Compares the sizes of the files of the current state with the manifest. Collective.
StoreCheck check_sizes(const ManagedRun& run);

/// How many threads of each rank compare files. Collective.
int threads_of_check(const ManagedRun& run);

/// Waits for the check during the move, if there is one, and throws DamagedState if it has found damaged files.
/// Collective.
void finish_check(const ManagedRun& run);

/// finish_check() after the ranks `owners` have written files in `partial` together: if files are damaged, also removes
/// `partial`, even if an earlier run has written to it. Collective.
void finish_check_or_discard(const ManagedRun& run, const mpi::Comm& owners, PartialDirectory& partial);

/// Whether damaged files can have caused `error`, which planning or reading has thrown. False for usage errors, which
/// are reported at once, and for stop requests.
inline bool can_be_damage(const Error& error) {
    const Exit others[] = {Exit::usage, Exit::resumable, Exit::interrupted};
    return std::ranges::find(others, error.exit()) == std::end(others);
}

/// Runs `plan`, which reads the current state. If it fails and the check finds damaged files, throws DamagedState
/// instead. Collective.
template <class Plan>
decltype(auto) replan_on_damage(const ManagedRun& run, Plan&& plan) {
    try {
        return plan();
    } catch (const mpi::AgreedError& error) {
        if (can_be_damage(error)) finish_check(run);
        throw;
    }
}

}  // namespace tpx::cli
