// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/file.hpp"
#include "lib/exec/open_files.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace tpx {

/// Syncs a file or directory to disk. Throws Error "PATH: cause".
void sync_file(const Fd& fd, const std::filesystem::path& path);

/// The files that a process writes. All stay open if the process may have that many files open; otherwise only those
/// opened last. A file has at most two descriptors: one for writes through the page cache, one for direct writes. Any
/// thread may use it.
class TargetFiles {
public:
    /// `paths` must outlive this; keeps at most `most` descriptors open, unless more are in use.
    explicit TargetFiles(std::span<const std::filesystem::path> paths, std::size_t most = allowed_open_files(4));

    const std::filesystem::path& path(std::uint32_t file) const { return paths_[file]; }

    /// Takes over a file that was opened for writing.
    void adopt(std::uint32_t file, Fd fd);

    /// The file, open for writes through the page cache. Throws Error if the file cannot be opened, or if another file
    /// that must be closed first cannot be closed, because its bytes may be lost.
    std::shared_ptr<Fd> buffered(std::uint32_t file);

    /// The file, open for direct writes; null if the file system does not support them.
    std::shared_ptr<Fd> direct(std::uint32_t file);

    /// Writes all of `bytes` through the page cache. Throws Error.
    void write(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes);

    /// Syncs to disk what any process of this host has written to a file. Throws Error.
    void sync(std::uint32_t file);

    /// Closes all files. Throws Error if a file cannot be closed.
    void close();

private:
    std::shared_ptr<Fd> get(std::size_t slot, int flags);
    void make_room();

    std::span<const std::filesystem::path> paths_;
    std::size_t most_;
    std::mutex mutex_;
    std::vector<std::shared_ptr<Fd>> fds_;  // two for each file
    std::deque<std::size_t> open_;          // indices into fds_, the one opened first in front
};

}  // namespace tpx
