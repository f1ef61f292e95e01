// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/jobs/ranks.hpp"
#include "cmd/stores/managed_source.hpp"
#include "formats/files/store/manifest.hpp"

#include <string>

// The target of tpx migrate --store: the managed stores, or shared storage.
namespace tpx::cli {

/// What a migration did, and the manifest of the new state.
struct ManagedDone {
    MigrateDone done;
    formats::Manifest manifest;
};

/// The manifest of the state that `job` creates, without the checksums of its files. `request` is a digest of the
/// user's request.
formats::Manifest manifest_to_be(const Managed& run, const ManagedJob& job, const std::string& request);

/// Writes the new state in the staging folder of every store, unless an earlier run has done so, and switches all
/// stores to it. Throws an mpi::AgreedError. Collective.
ManagedDone write_to_stores(const Managed& run, const ManagedJob& job, const formats::Manifest& manifest,
                            const ReadRecord& record, Patience& patience, Output& out);

/// Writes the state as a checkpoint to the path of --export on shared storage. Collective.
MigrateDone write_to_shared(const Managed& run, const ManagedJob& job, std::uint64_t request, const ReadRecord& record,
                            Patience& patience);

}  // namespace tpx::cli
