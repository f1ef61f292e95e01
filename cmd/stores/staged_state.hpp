// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/stores/managed_source.hpp"

#include <filesystem>
#include <string>
#include <vector>

// What earlier runs left in the staging folders of the stores.
namespace tpx::cli {

/// Writes the manifest of a state in `folder`. A run that was killed while it did so may have left a manifest under a
/// temporary name, which must not become part of the state.
void write_manifest(const std::filesystem::path& folder, const formats::Manifest& manifest);

/// If every host of `members` has all files of the plan of `manifest` in staging, because a run failed between their
/// completion and the decision to switch, compares them with their checksums, makes them the staged state of
/// `manifest`, whose checksums it sets, and describes them in `done`. Returns whether it did. Throws an
/// mpi::AgreedError. Collective.
bool take_over_staging(const Managed& run, const std::vector<bool>& members, formats::Manifest& manifest,
                       MigrateDone& done);

/// Removes what unfinished changes left in staging and this run, of the change and plan of `manifest`, cannot continue;
/// a note says why. Collective.
void remove_old_staging(const Managed& run, const formats::Manifest& manifest, Output& out);

/// "host0,host1": the hosts on which unfinished changes have left something in staging; empty: none.
std::string hosts_with_staging(const Managed& run);

}  // namespace tpx::cli
