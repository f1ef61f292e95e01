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

/// Brings a file or directory to disk. Throws Error "PATH: cause".
void sync_file(const Fd& fd, const std::filesystem::path& path);

/// The files that a process writes, all open at the same time if it may have that many, and otherwise those that were
/// used last. Each is opened twice at most while that suffices: through the page cache, and past it. For any threads.
class TargetFiles {
public:
    /// `paths` must outlive this; at most `most` descriptors are open, if they are not in use.
    explicit TargetFiles(std::span<const std::filesystem::path> paths, std::size_t most = allowed_open_files(4));

    const std::filesystem::path& path(std::uint32_t file) const { return paths_[file]; }

    /// Takes over a file that was opened for writing.
    void adopt(std::uint32_t file, Fd fd);

    /// The file, open for writes through the page cache. Throws Error when it cannot be opened, or when a file that
    /// must be closed for it cannot be closed, as its bytes may be lost then.
    std::shared_ptr<Fd> buffered(std::uint32_t file);

    /// The file, open for writes past the page cache; null when the file system cannot do that.
    std::shared_ptr<Fd> direct(std::uint32_t file);

    /// Writes all of `bytes` through the page cache. Throws Error.
    void write(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes);

    /// Brings what any process of this host has written to a file to disk. Throws Error.
    void sync(std::uint32_t file);

    /// Closes all files. Throws Error when one cannot be closed.
    void close();

private:
    std::shared_ptr<Fd> get(std::size_t slot, int flags);
    void make_room();

    std::span<const std::filesystem::path> paths_;
    std::size_t most_;
    std::mutex mutex_;
    std::vector<std::shared_ptr<Fd>> fds_;  // of each file two
    std::deque<std::size_t> open_;          // numbers in fds_, the one opened first in front
};

}  // namespace tpx
