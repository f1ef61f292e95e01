// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hosts/leaving_plan.hpp"
#include "cmd/jobs/run_on_ranks.hpp"
#include "cmd/stores/managed_source.hpp"

#include <chrono>
#include <optional>
#include <vector>

namespace tpx::cli {

/// The files that were saved from leaving hosts, or that a run without --dry-run would save.
struct SavedFromLeaving {
    LeavingPlan plan;
    std::optional<MigrateResult> done;  ///< nothing with --dry-run, or if nothing had to be saved
    std::vector<StoredFile> files;      ///< with --dry-run: of the state that would be saved, with their hosts
};

/// With --within: saves files that only leaving hosts have, to hosts that remain, as a state in the current layout, so
/// that the leaving hosts are no longer needed. First prints whether this can be done in time; throws an
/// mpi::AgreedError (no) if the given rates show that it cannot and there is no --fallback. On return, `check` and
/// `run.survey` describe the saved state. Returns nothing if the options do not include --within, or if the current
/// state lacks tensors. Collective.
std::optional<SavedFromLeaving> save_from_leaving_hosts(ManagedRun& run, StoreCheck& check, Patience& patience,
                                                        Output& out, std::chrono::steady_clock::time_point start);

}  // namespace tpx::cli
