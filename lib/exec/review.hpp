// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/byte_ranges.hpp"
#include "lib/exec/exec_options.hpp"
#include "lib/exec/journal.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/payload_crcs.hpp"
#include "lib/exec/tiles.hpp"
#include "lib/exec/written_crc.hpp"

#include <filesystem>
#include <span>
#include <vector>

namespace tpx {

/// The inputs for reading back what an earlier run wrote.
struct ReviewJob {
    const Tiler& tiler;
    std::span<const std::filesystem::path> files;  ///< of the output, in the draft's order
    const WrittenCrc& crc;
    PayloadCrcs& payloads;
    std::uint64_t memory = 0;  ///< of each thread
};

/// The bytes of the job, among those in `entries`, that are in the files of the output: one rank reads each entry back,
/// and the entry counts only if its checksum matches. `entries`, the same on all ranks, are sorted and disjoint. Adds
/// the entries that count to the payloads' checksums. The result is the same on all ranks. Collective; throws an
/// mpi::AgreedError.
ByteRanges find_intact_ranges(const mpi::Comm& comm, const ExecOptions& options, const ReviewJob& job,
                              std::vector<JournalEntry> entries);

}  // namespace tpx
