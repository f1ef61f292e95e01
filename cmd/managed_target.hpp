// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/managed_source.hpp"
#include "cmd/ranks.hpp"
#include "formats/store/manifest.hpp"

#include <string>

// Where tpx migrate --store writes to.
namespace tpx::cli {

/// What the hosts have done, and the manifest of the new state.
struct ManagedDone {
    MigrateDone done;
    formats::Manifest manifest;
};

/// The manifest of the state that `job` makes, but for the checksums of its files.
formats::Manifest manifest_to_be(const Managed& run, const ManagedJob& job, const std::string& request);

/// Makes the new state in the staging folder of every store, and switches to it. Collective.
ManagedDone write_to_stores(const Managed& run, const ManagedJob& job, const formats::Manifest& manifest,
                            const ReadRecord& record, Patience& patience);

/// Writes the checkpoint to --export on shared storage. Collective.
MigrateDone write_to_shared(const Managed& run, const ManagedJob& job, std::uint64_t request, const ReadRecord& record,
                            Patience& patience);

}  // namespace tpx::cli
