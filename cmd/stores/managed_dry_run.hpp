// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hosts/migrate_report.hpp"
#include "cmd/output/output.hpp"
#include "cmd/stores/managed_source.hpp"
#include "formats/files/store/manifest.hpp"

namespace tpx::cli {

/// Reports on rank 0, which has planned, what a run without --dry-run would do, and the time and memory that it would
/// take. `manifest` is that of the new state, or null. Collective.
void report_dry_run(const ManagedRun& run, ManagedJob& job, const MigratePaths& places,
                    const formats::Manifest* manifest, Output& out);

}  // namespace tpx::cli
