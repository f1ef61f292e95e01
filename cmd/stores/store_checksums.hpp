// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hosts/migrate_run.hpp"
#include "formats/files/store/manifest.hpp"
#include "lib/exec/file_crcs.hpp"

#include <filesystem>

namespace tpx::cli {

/// Adds the checksums of the files in `folder`, the new state of this host, to `manifest`; each rank reads with
/// `threads` threads. `written`, if not null, contains the checksums of all tensor data in these files, so that only
/// their other bytes are read. Throws an mpi::AgreedError if replicas of a file differ. Collective.
void add_checksums(const HostRun& run, const std::filesystem::path& folder, FileCrcs* written, int threads,
                   formats::Manifest& manifest);

}  // namespace tpx::cli
