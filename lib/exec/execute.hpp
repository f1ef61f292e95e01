// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/moves.hpp"
#include "lib/core/catalogue.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/options.hpp"
#include "lib/exec/timeline.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>

namespace tpx {

/// What an execution did, on all ranks together.
struct Report {
    std::uint64_t bytes_read = 0;     ///< of the source's payloads
    std::uint64_t bytes_written = 0;  ///< of the target's payloads
    std::uint64_t bytes_shared = 0;   ///< the part of them that shares disk blocks with the source and was not written
    std::uint64_t bytes_kept = 0;     ///< of the target's payloads that earlier runs had written

    /// Whether the file system refused to write past the page cache (O_DIRECT).
    bool refused_direct = false;

    int threads = 0;  ///< that read, copied and wrote, of all ranks
    /// Seconds in each Stage, the mean over these threads; of `create` and `sync` over the ranks, and with the time in
    /// which they wait for each other.
    std::array<double, stage_count> stages{};
    double seconds = 0;  ///< from beginning to end
};

/// Writes the draft's files under `directory`, which it makes if need be, by their unfinished_name(), which
/// DraftFiles::give_names() ends, and carries out the moves: reads each source byte once, on one rank, and writes every
/// target piece, cast if the dtypes differ. Bytes that nothing covers are zero. All files are on disk when it returns.
/// Without a journal, the files must not exist yet.
///
/// With a journal in `options`, records what is written, and continues what earlier runs of the same request left under
/// `directory`: what they recorded is read again, and what has the checksum of its record is kept. The outcome does not
/// depend on earlier runs, ranks, memory or threads.
///
/// Collective; throws an mpi::AgreedError that names file and tensor, also when a
/// cast made a finite value infinite.
///
/// Precondition: the plan's moves tile its target pieces, whose files are the draft's.
Report execute(const mpi::Comm& comm, const Moves& moves, const Side& source, std::span<const SourceFile> source_files,
               const Side& target, const Draft& draft, const std::filesystem::path& directory,
               const ExecOptions& options);

}  // namespace tpx
