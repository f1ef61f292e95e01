// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/core/file.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/payload_crcs.hpp"
#include "lib/exec/target_files.hpp"

#include <filesystem>
#include <functional>
#include <span>
#include <vector>

namespace tpx {

/// The files of a draft under a directory, with their unfinished_name() until all are complete. Each file belongs to
/// one rank, which creates it and writes the bytes that are known beforehand. Only rename_to_final() communicates.
class DraftFiles {
public:
    DraftFiles(const mpi::Comm& comm, const Draft& draft, const std::filesystem::path& directory);

    const std::filesystem::path& directory() const { return directory_; }

    /// The paths, by the draft's file numbers.
    std::span<const std::filesystem::path> paths() const { return paths_; }

    /// Creates directories and this rank's files, with their final sizes and filled with zeros, and leaves the files
    /// open in `files`. Throws Error if the file system has too little room for all files.
    void create(TargetFiles& files) const;

    /// The same if an earlier run may have created some of the files: files with final names get their unfinished names
    /// back, and with `keep`, files keep their content unless their sizes are wrong.
    void create_or_adopt(bool keep, TargetFiles& files) const;

    /// Writes the copies of this rank's files and those fixed bytes that write_slots() does not write; `buffer` is
    /// scratch memory. Returns the number of bytes written.
    std::uint64_t write_known(std::span<std::byte> buffer, TargetFiles& files) const;

    /// Writes the checksums of this rank's files; see FixedSlots for checksums written together with the fixed bytes
    /// around them.
    void write_slots(const PayloadCrcs& crcs, TargetFiles& files) const;

    /// Syncs this rank's files, their directories, and the files of any rank that `written` marks (by the draft's file
    /// numbers).
    void sync(const std::vector<bool>& written, TargetFiles& files) const;

    /// Gives the files of all ranks their final names, files without payload last: readers look for these first.
    /// Precondition: all files are synced. Collective; throws an mpi::AgreedError.
    void rename_to_final() const;

private:
    bool mine(std::size_t file) const {
        return file % static_cast<std::size_t>(comm_.size()) == std::size_t(comm_.rank());
    }
    void make(const std::function<Fd(std::size_t)>& open, TargetFiles& files) const;
    Fd adopt(std::size_t file, bool keep) const;
    void check_disk_space() const;
    void sync_directories() const;

    const mpi::Comm& comm_;
    const Draft& draft_;
    std::filesystem::path directory_;
    std::vector<std::filesystem::path> paths_;
};

/// Whether `folder` contains exactly the files of the draft, with their final names and sizes.
bool has_all_files(const Draft& draft, const std::filesystem::path& folder);

}  // namespace tpx
