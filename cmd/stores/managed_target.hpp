// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/jobs/run_on_ranks.hpp"
#include "cmd/stores/managed_source.hpp"
#include "formats/files/store/manifest.hpp"

#include <string>

// The target of tpx migrate --store: the managed stores, or shared storage.
namespace tpx::cli {

/// What a migration did, and the manifest of the new state.
struct ManagedResult {
    MigrateResult done;
    formats::Manifest manifest;
};

/// The manifest of the state that `job` creates, without the checksums of its files. `request` is a digest of the
/// user's request.
formats::Manifest planned_manifest(const ManagedRun& run, const ManagedJob& job, const std::string& request);

/// Writes the new state in the staging folder of every store, unless an earlier run has done so, and switches all
/// stores to it. Throws an mpi::AgreedError. Collective.
ManagedResult write_to_stores(const ManagedRun& run, const ManagedJob& job, const formats::Manifest& manifest,
                              const ReadRecord& record, Patience& patience, Output& out);

/// Writes the state as a checkpoint to the path of --export on shared storage. Collective.
MigrateResult write_to_shared(const ManagedRun& run, const ManagedJob& job, std::uint64_t request,
                              const ReadRecord& record, Patience& patience);

}  // namespace tpx::cli
