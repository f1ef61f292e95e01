// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/jobs/open_checkpoint.hpp"
#include "cmd/verify/verify.hpp"
#include "lib/core/read_record.hpp"
#include "lib/exec/mpi.hpp"

#include <filesystem>
#include <functional>
#include <string>

namespace tpx::cli {

/// A checkpoint that is only read, with the same files and values on all ranks. Destroy several objects in reverse
/// order of their construction.
class AgreedSource {
public:
    /// Opens `path`; moving a link or tracker in it later has no effect. `more` reads whatever else must be the same on
    /// all ranks; it must not communicate. Throws an mpi::AgreedError if a rank finds files or values that differ from
    /// those of rank 0. Collective.
    AgreedSource(const mpi::Comm& comm, const std::string& path, const ReadOptions& options,
                 const std::function<void(AgreedSource&)>& more = {});

    const std::filesystem::path& path() const { return path_; }  ///< with links and trackers resolved
    formats::Source& source() { return opened_.source; }

    /// Throws an mpi::AgreedError that names the file if a file has changed since it was read. Collective.
    void check_unchanged(const mpi::Comm& comm) const;

private:
    ReadRecord record_;
    std::filesystem::path path_;
    OpenedCheckpoint opened_;
};

/// Throws an mpi::AgreedError unless all ranks were given the same options. Paths of checkpoints may differ.
/// Collective.
void require_same_options(const mpi::Comm& comm, const VerifyOptions& options);

}  // namespace tpx::cli
