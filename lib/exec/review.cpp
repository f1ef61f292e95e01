// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/review.hpp"

#include "lib/exec/share_runner.hpp"
#include "lib/exec/source_files.hpp"
#include "lib/exec/window.hpp"

#include <algorithm>
#include <atomic>
#include <memory>

namespace tpx {
namespace {

using Entries = std::span<const JournalEntry>;

// What was read back of an entry; its parts may be added in any order.
struct Kept {
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint64_t> crc{0};
};

// The state of one thread of a rank.
class Reviewer {
public:
    Reviewer(const ReviewJob& job, std::span<const SourceFile> files, Entries entries, std::vector<Kept>& found)
        : job_{job}, arena_{job.memory}, files_{files}, entries_{entries}, found_{found} {}

    void read(Tile& tile) {
        arena_.clear();
        Window window{tile.targets};
        window.place_for_writing(arena_);
        window.read(files_);
        std::uint64_t crc = 0;
        window.write([&](auto file, auto offset, auto bytes) {
            crc ^= job_.crc.of(file, offset, bytes);
            job_.payloads.add(file, offset, bytes);
        });
        const auto entry =
            std::ranges::upper_bound(entries_, tile.begin, {}, [](const JournalEntry& e) { return e.range.end; });
        Kept& found = found_[static_cast<std::size_t>(entry - entries_.begin())];
        found.bytes += tile.bytes;
        found.crc ^= crc;
        bytes_done += tile.bytes;
    }

    std::atomic<std::uint64_t> bytes_done{0};

private:
    const ReviewJob& job_;
    Arena arena_;
    SourceFiles files_;
    Entries entries_;
    std::vector<Kept>& found_;
};

// This rank's part of the entries; all ranks get about the same number of bytes.
Entries part_of(const mpi::Comm& comm, Entries entries) {
    ByteRanges all;
    for (const JournalEntry& entry : entries) all.add(entry.range);
    const auto edge = [&](int rank) {
        const std::uint64_t wanted = all.count() / static_cast<unsigned>(comm.size()) * static_cast<unsigned>(rank);
        return std::ranges::partition_point(
            entries, [&](const JournalEntry& e) { return all.count_before(e.range.begin) < wanted; });
    };
    return {edge(comm.rank()), comm.rank() + 1 == comm.size() ? entries.end() : edge(comm.rank() + 1)};
}

// Which entries have matching checksums; the same on all ranks.
std::vector<bool> review(const mpi::Comm& comm, const ExecOptions& options, const ReviewJob& job, Entries entries) {
    const Entries own = part_of(comm, entries);
    std::vector<ByteRange> ranges;
    for (const JournalEntry& entry : own) ranges.push_back(entry.range);
    const std::vector<SourceFile> files = raw_files(job.files);
    std::vector<Kept> found(own.size());
    std::vector<std::unique_ptr<Reviewer>> reviewers;
    mpi::all_or_none(comm, [&] {
        for (int k = 0; k < options.threads; ++k)
            reviewers.push_back(std::make_unique<Reviewer>(job, files, own, found));
    });
    const auto read = [&](int thread, Tile& tile) { reviewers[static_cast<std::size_t>(thread)]->read(tile); };
    const auto done = [&] {
        std::uint64_t bytes = 0;
        for (const auto& reviewer : reviewers) bytes += reviewer->bytes_done;
        return bytes;
    };
    // Each tile by itself, because tiles of several entries have no common checksum.
    process_tiles(comm, options, job.tiler, ShareOfRanges{ranges}, {read, done});
    std::vector<std::uint64_t> holds(entries.size());
    for (std::size_t k = 0; k < own.size(); ++k) {
        const JournalEntry& entry = own[k];
        const bool is_whole = found[k].bytes == entry.range.end - entry.range.begin;
        holds[static_cast<std::size_t>(own.begin() - entries.begin()) + k] = is_whole && found[k].crc == entry.crc;
    }
    mpi::all_max(comm, holds);
    return {holds.begin(), holds.end()};
}

}  // namespace

ByteRanges find_intact_ranges(const mpi::Comm& comm, const ExecOptions& options, const ReviewJob& job,
                              std::vector<JournalEntry> entries) {
    // Entries that do not match are in the payloads' checksums, so these are computed again from the entries that do.
    for (bool all_hold = false; !all_hold;) {
        job.payloads.clear();
        const std::vector<bool> holds = review(comm, options, job, entries);
        const std::size_t before = entries.size();
        std::size_t k = 0;
        std::erase_if(entries, [&](const JournalEntry&) { return !holds[k++]; });
        all_hold = entries.size() == before;
    }
    ByteRanges written;
    for (const JournalEntry& entry : entries) written.add(entry.range);
    return written;
}

}  // namespace tpx
