// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/file.hpp"
#include "lib/exec/byte_ranges.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <vector>

// A record of what a run has written, so that a later run of the same request continues it. Journals are hints: each
// entry stores a checksum of the bytes that were written, and a run that continues reads those bytes back and checks
// them. Entries and bytes may therefore reach the disk in any order.
namespace tpx {

/// The folder in an unfinished output that contains the journals.
inline constexpr const char* journal_folder = ".tpx";

/// What all journals of an output have in common.
struct JournalHeader {
    std::uint64_t request = 0;    ///< digest of the source, the output and the moves
    std::uint64_t total = 0;      ///< bytes of the job
    std::uint64_t most = 0;       ///< see TileLimits
    std::uint64_t preferred = 0;  ///< see TileLimits

    friend bool operator==(const JournalHeader&, const JournalHeader&) = default;
};

/// Bytes of the job, in the order of its tiles, that are in the files of the output.
struct JournalEntry {
    ByteRange range;
    std::uint64_t crc = 0;  ///< WrittenCrc of what was written

    friend bool operator==(const JournalEntry&, const JournalEntry&) = default;
};

/// Where a run keeps its journals.
struct JournalPlace {
    std::filesystem::path output;  ///< the unfinished output
    std::uint64_t request = 0;
    int attempt = 0;  ///< number of earlier runs; part of a journal's name
};

/// The journal of one rank. Several threads may add to it.
class Journal {
public:
    /// Creates the journal, and its folder if there is none. Throws Error "PATH: cause".
    Journal(const JournalPlace& place, int rank, const JournalHeader& header);

    /// Appends an entry for bytes that are written. The entry survives the end of the process; while entries are added,
    /// they are synced to disk about every five seconds. Throws Error "PATH: cause".
    void add(const JournalEntry& entry);

private:
    std::filesystem::path path_;
    Fd file_;
    std::mutex mutex_;
    std::uint64_t request_;
    std::uint64_t end_ = 0;
    std::chrono::steady_clock::time_point synced_;
};

/// What the journals of an output contain.
struct Journals {
    JournalHeader header;
    std::vector<JournalEntry> entries;  ///< sorted and disjoint; of two that overlap, the first is kept

    std::uint64_t bytes() const;
};

/// One more than the highest attempt number of the journals of the unfinished output in folder `output`; at least 1.
int next_attempt(const std::filesystem::path& output);

/// Reads all intact entries from the journals of the unfinished output in folder `output`. Nothing if no journal has an
/// intact header. Skips journals whose request or total differs from that of the latest one.
std::optional<Journals> read_journals(const std::filesystem::path& output);

}  // namespace tpx
