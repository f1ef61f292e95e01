// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hosts/migrate_hold.hpp"
#include "cmd/output/output.hpp"
#include "cmd/stores/managed_source.hpp"

#include <nlohmann/json.hpp>

// The last steps of tpx migrate --store: reports the current state, and holds it in memory.
namespace tpx::cli {

/// The data position in the current state, read on one host that has this state; null if there is none. Collective.
nlohmann::ordered_json current_position(const ManagedRun& run);

/// Holds the state of `manifest` in memory, if --hold asks for it. Collective.
void hold_managed(const ManagedRun& run, const formats::Manifest& manifest, const RankPlaces& places, HeldState state,
                  Output& out);

/// Ends a run that does not change the current state: prunes the stores if --prune is given, copies data files to hosts
/// that lack them, reports the state, and does what --launch and --hold ask for. Throws an mpi::AgreedError.
/// Collective.
Exit end_without_change(const ManagedRun& run, Output& out);

}  // namespace tpx::cli
