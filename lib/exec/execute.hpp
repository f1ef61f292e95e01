// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/moves.hpp"
#include "lib/core/catalogue.hpp"
#include "lib/exec/exec_options.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/timeline.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>

namespace tpx {

/// What an execution did, summed over all ranks.
struct ExecReport {
    std::uint64_t bytes_read = 0;     ///< bytes of the source's payloads
    std::uint64_t bytes_written = 0;  ///< bytes of the target's payloads
    std::uint64_t bytes_shared = 0;   ///< the part of bytes_written that shares disk blocks with the source
    std::uint64_t bytes_kept = 0;     ///< bytes of the target's payloads that earlier runs had written

    /// Whether the file system refused to bypass the page cache (O_DIRECT).
    bool refused_direct = false;

    int threads = 0;  ///< threads that read, copied and wrote, on all ranks
    /// Seconds in each Stage, averaged over these threads; for `create` and `sync`, averaged over the ranks, including
    /// the time in which these wait for each other.
    std::array<double, stage_count> stages{};
    double seconds = 0;  ///< from beginning to end
};

/// Writes the draft's files under `directory`, which it creates if needed, with their unfinished_name(), and executes
/// the moves: reads each source byte once, on one rank, and writes every target piece, cast if the dtypes differ. Bytes
/// that nothing covers are zero. All files are on disk when it returns; a later call of DraftFiles::rename_to_final()
/// gives them their final names. Without a journal, the files must not exist yet.
///
/// With a journal in `options`, records what is written, and continues what earlier runs of the same request left under
/// `directory`: reads the bytes that they recorded, and keeps those whose checksum matches the record. The outcome does
/// not depend on earlier runs, ranks, memory or threads.
///
/// Collective; throws an mpi::AgreedError that names the file and the tensor, also if a cast made a finite value
/// infinite.
///
/// Precondition: `moves` tile the pieces of `target`, whose files are the draft's.
ExecReport execute(const mpi::Comm& comm, const Moves& moves, const Side& source,
                   std::span<const SourceFile> source_files, const Side& target, const Draft& draft,
                   const std::filesystem::path& directory, const ExecOptions& options);

}  // namespace tpx
