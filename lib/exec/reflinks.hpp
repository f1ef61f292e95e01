// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/exec/file_writer.hpp"
#include "lib/exec/source_files.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace tpx {

/// Bytes of a source file that become bytes of a target file unchanged and in the same order.
struct EqualRun {
    std::uint32_t source_file = 0;
    std::uint32_t target_file = 0;
    std::uint64_t source = 0;  ///< offset in the source file
    std::uint64_t target = 0;  ///< offset in the target file
    std::uint64_t length = 0;

    std::uint64_t end() const { return target + length; }
};

/// The source and target bytes of `box`, which is in both pieces, if they are contiguous in both files and in the same
/// order; otherwise nothing.
std::optional<EqualRun> equal_run(const Piece& source, const Piece& target, int itemsize, const Box& box);

/// Joins runs that continue each other in both files, and trims them to whole blocks of `block` bytes. Drops runs whose
/// source and target offsets differ modulo `block`, and runs too short to be worth a system call. Sorts the rest by
/// target.
void cut_to_blocks(std::vector<EqualRun>& runs, std::uint64_t block);

/// Shares blocks of source files with target files (FICLONERANGE) instead of writing them. Later changes to one of the
/// files do not affect the other one. Bytes that cannot be shared are written from memory, where they are needed for
/// digests and checksums anyway; copy_file_range(2) would read them a second time. Not thread-safe.
class Reflinks {
public:
    /// `count` is the number of source files; nothing is shared with `busy`, which another thread writes.
    Reflinks(SourceFiles& sources, FileWriter& targets, std::size_t count, std::optional<std::uint32_t> busy);

    /// Forgets all runs; `block` is the block size of the target's file system, 0 if nothing can be shared.
    void begin(std::uint64_t block);

    /// Whether blocks can be shared with this source file, as far as is known.
    bool may_share(std::uint32_t source_file) const { return block_ > 0 && works_ && !refused_[source_file]; }

    /// Adds a run to those of the tile. Then settle() must be called before share().
    void add(const EqualRun& run) { runs_.push_back(run); }
    void settle() { cut_to_blocks(runs_, block_); }

    /// The runs of whole blocks that are in the bytes [begin, end) of a target file.
    std::span<const EqualRun> within(std::uint32_t file, std::uint64_t begin, std::uint64_t end) const;

    /// Shares the blocks of a run. Returns false if the file systems cannot do that. Throws Error "PATH: cause" when
    /// the disk fails or is full.
    bool share(const EqualRun& run);

private:
    SourceFiles& sources_;
    FileWriter& targets_;
    std::vector<bool> refused_;  // by source file
    bool works_ = true;
    std::uint64_t block_ = 0;
    std::vector<EqualRun> runs_;
};

/// The block size of the file system of `folder`, 0 if it is unknown.
std::uint64_t block_size_of(const std::filesystem::path& folder);

}  // namespace tpx
