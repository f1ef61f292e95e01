// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/stores/managed_source.hpp"

#include <filesystem>
#include <string>
#include <vector>

// Files that earlier runs left in the staging folders of the stores.
namespace tpx::cli {

/// Writes the manifest of a state in `folder`. Removes manifests that a killed run has left there under temporary
/// names, which must not become part of the state.
void write_manifest(const std::filesystem::path& folder, const formats::Manifest& manifest);

/// If every host of `members` has all files of the plan of `manifest` in staging, because a run failed after it had
/// completed them and before the decision to switch, compares them with their checksums, makes them the staged state of
/// `manifest`, sets the checksums in `manifest`, and describes the files in `done`. Returns whether it took them over.
/// Throws an mpi::AgreedError. Collective.
bool take_over_staging(const ManagedRun& run, const std::vector<bool>& members, formats::Manifest& manifest,
                       MigrateResult& done);

/// Removes files that unfinished changes left in staging, unless this run, whose change and plan are in `manifest`, can
/// continue from them; a note gives the reason. Collective.
void remove_old_staging(const ManagedRun& run, const formats::Manifest& manifest, Output& out);

/// "host[0-1]": the hosts on which unfinished changes have left files in staging; empty: none.
std::string hosts_with_staging(const ManagedRun& run);

}  // namespace tpx::cli
