// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/moves.hpp"
#include "lib/exec/box_digester.hpp"
#include "lib/exec/file_crcs.hpp"
#include "lib/exec/file_writer.hpp"
#include "lib/exec/journal.hpp"
#include "lib/exec/move_digests.hpp"
#include "lib/exec/overflows.hpp"
#include "lib/exec/payload_crcs.hpp"
#include "lib/exec/reflinks.hpp"
#include "lib/exec/source_files.hpp"
#include "lib/exec/tiles.hpp"
#include "lib/exec/timeline.hpp"
#include "lib/exec/trace.hpp"
#include "lib/exec/window.hpp"
#include "lib/exec/written_crc.hpp"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// The inputs that all movers share.
struct MoveJob {
    const Moves& moves;
    Side source;
    Side target;
    std::span<const SourceFile> source_files;
    std::span<const std::filesystem::path> target_files;
    const WrittenCrc& written;
    PayloadCrcs& crcs;
    ReadDigests* read_digests = nullptr;
    MoveDigests* move_digests = nullptr;
    FileCrcs* file_crcs = nullptr;
    std::unique_ptr<Journal> journal = {};
    RateLimiter* rate_limiter = nullptr;  ///< null: no limit
    const std::atomic<int>* cancelled = nullptr;
    std::optional<std::uint32_t> arriving = {};  ///< the source file whose bytes arrive during the job
    std::uint64_t block_size = 0;                ///< of the target's file system; 0: unknown
};

/// The state of one thread of a rank: its memory, the source files that it has open, and what it did.
class Mover {
public:
    Mover(const MoveJob& job, TargetFiles& targets, std::uint64_t memory, std::size_t most_spans)
        : timeline{most_spans},
          job_{job},
          arena_{memory},
          sources_{job.source_files, job.read_digests},
          targets_{targets, job.target_files.size()},
          reflinks_{sources_, targets_, job.source_files.size(), job.arriving} {}

    /// Reads, casts and writes the bytes of a tile.
    void carry(Tile& tile);

    const Overflows& overflows() const { return overflows_; }
    bool has_written(std::size_t file) const { return targets_.has_written(file); }
    bool was_refused_direct() const { return targets_.was_refused_direct(); }

    Timeline timeline;
    std::uint64_t bytes_read = 0;
    std::uint64_t bytes_shared = 0;  // bytes that share disk blocks with source files
    std::atomic<std::uint64_t> bytes_done{0};

private:
    void copy(const TilePart& part, const Tile& tile, const Window& sources, const Window& targets);
    void note_equal(const Move& move, const Box& box);
    void write(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes);
    void write_or_share(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes);

    const MoveJob& job_;
    Arena arena_;
    SourceFiles sources_;
    FileWriter targets_;
    Reflinks reflinks_;
    Overflows overflows_;
    BoxDigester digester_;
    std::uint64_t crc_ = 0;  // of the bytes written for the current tile
};

using Movers = std::vector<std::unique_ptr<Mover>>;

std::uint64_t bytes_done(const Movers& movers);

/// The stage in which the threads have spent the most time; empty if there is none yet. Another thread may call this.
std::string_view slowest_stage(const Movers& movers);

/// Adds what this thread and the movers did to a trace, if there is one.
void add_spans(Trace* trace, const MoveJob& job, const Timeline& own, const Movers& movers);

}  // namespace tpx
