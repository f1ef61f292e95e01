// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/byte_ranges.hpp"
#include "lib/exec/journal.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/options.hpp"
#include "lib/exec/payload_crcs.hpp"
#include "lib/exec/tiles.hpp"
#include "lib/exec/written_crc.hpp"

#include <filesystem>
#include <span>
#include <vector>

namespace tpx {

/// What is needed to read again what an earlier run wrote.
struct ReviewJob {
    const Tiler& tiler;
    std::span<const std::filesystem::path> files;  ///< of the output, in the draft's order
    const WrittenCrc& crc;
    PayloadCrcs& payloads;
    std::uint64_t memory = 0;  ///< of each thread
};

/// The bytes of the job, of those in `entries`, that are in the files of the output: each entry is read again by one
/// rank and counts only if its checksum holds. `entries`, the same on all ranks, are sorted and disjoint. Adds what
/// counts to the payloads' checksums. The result is the same on all ranks. Collective; throws an mpi::AgreedError.
ByteRanges still_written(const mpi::Comm& comm, const ExecOptions& options, const ReviewJob& job,
                         std::vector<JournalEntry> entries);

}  // namespace tpx
