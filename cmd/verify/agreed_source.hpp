// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/jobs/reading.hpp"
#include "cmd/verify/verify.hpp"
#include "lib/core/read_record.hpp"
#include "lib/exec/mpi.hpp"

#include <filesystem>
#include <functional>
#include <string>

namespace tpx::cli {

/// A checkpoint that is only read, and that all ranks opened alike. Of several, the one that was made last must be
/// destroyed first.
class AgreedSource {
public:
    /// Opens `path`, where a link or tracker that is moved later has no effect; `more` reads whatever else the ranks
    /// must have in common, and does not communicate. Throws an mpi::AgreedError if a rank finds other files or values
    /// than rank 0. Collective.
    AgreedSource(const mpi::Comm& comm, const std::string& path, const ReadOptions& options,
                 const std::function<void(AgreedSource&)>& more = {});

    const std::filesystem::path& path() const { return path_; }  ///< without links
    formats::Source& source() { return opened_.source; }

    /// Throws an mpi::AgreedError that names a file that was read and has changed since. Collective.
    void check_unchanged(const mpi::Comm& comm) const;

private:
    ReadRecord record_;
    std::filesystem::path path_;
    Opened opened_;
};

/// Throws an mpi::AgreedError unless all ranks were given the same options. Paths of checkpoints may differ.
/// Collective.
void require_same_options(const mpi::Comm& comm, const VerifyOptions& options);

}  // namespace tpx::cli
