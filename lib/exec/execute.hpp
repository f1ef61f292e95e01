// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/moves.hpp"
#include "lib/core/catalogue.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/options.hpp"

#include <cstdint>
#include <filesystem>
#include <span>

namespace tpx {

/// What an execution did, on all ranks together.
struct Report {
    std::uint64_t bytes_read = 0;     ///< of the source's payloads
    std::uint64_t bytes_written = 0;  ///< of the target's payloads

    /// Seconds of threads, added up; stages overlap, and wait for each other's memory and disk.
    struct Stages {
        double create = 0;
        double read = 0;
        double copy = 0;
        double checksum = 0;
        double write = 0;
        double sync = 0;
    };
    Stages stages;
    double seconds = 0;  ///< from beginning to end
};

/// Writes the draft's files under `directory`, which it makes if need be, by their unfinished_name(), which
/// DraftFiles::give_names() ends, and carries out the moves: reads each source byte once, on one rank, and writes every
/// target piece, cast if the dtypes differ. Bytes that nothing covers are zero. All files are on disk when it returns;
/// the files must not have been there. Collective; throws an mpi::AgreedError that names file and tensor, also when a
/// cast made a finite value infinite.
///
/// Precondition: the plan's moves tile its target pieces, whose files are the draft's.
Report execute(const mpi::Comm& comm, const Moves& moves, const Side& source, std::span<const SourceFile> source_files,
               const Side& target, const Draft& draft, const std::filesystem::path& directory,
               const ExecOptions& options);

}  // namespace tpx
