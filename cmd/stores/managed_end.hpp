// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hosts/migrate_hold.hpp"
#include "cmd/output/output.hpp"
#include "cmd/stores/managed_source.hpp"

#include <nlohmann/json.hpp>

// How a run of tpx migrate --store ends: what it tells about the current state, and how it holds it.
namespace tpx::cli {

/// The data position in the current state, which a host that has this state reads; null if there is none. Collective.
nlohmann::ordered_json current_position(const Managed& run);

/// Holds the state of `manifest` in memory, if --hold asks for it. Collective.
void hold_managed(const Managed& run, const formats::Manifest& manifest, const RankPlaces& places, HeldState state,
                  Output& out);

/// Reports the current state, which stays as it is, after --prune if given; places its ranks' data files, and writes
/// what --launch and --hold ask for. Throws an mpi::AgreedError. Collective.
Exit end_without_change(const Managed& run, Output& out);

}  // namespace tpx::cli
