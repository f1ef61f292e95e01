// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/file.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <span>
#include <vector>

namespace tpx {

/// How many files each of `shares` users in this process may keep open; a few even if the process limit is low.
std::size_t allowed_open_files(std::size_t shares);

/// Files that are opened when they are needed; only a limited number of them is open at a time. For one thread.
class OpenFiles {
public:
    /// `paths` must outlive this; `flags` are open(2)'s.
    OpenFiles(std::span<const std::filesystem::path> paths, int flags);

    /// The open file; valid until the next call. Throws Error when it cannot be opened.
    const Fd& get(std::uint32_t file);

    /// The same, but null when it cannot be opened.
    const Fd* get_if_possible(std::uint32_t file);

    /// Closes all files. Throws Error if a file that was written to cannot be closed.
    void close();

    const std::filesystem::path& path(std::uint32_t file) const { return paths_[file]; }

    void read(std::uint32_t file, std::uint64_t offset, std::span<std::byte> into) {
        read_at(get(file), offset, into, path(file));
    }
    void write(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> from) {
        write_at(get(file), offset, from, path(file));
    }

private:
    void make_room();

    std::span<const std::filesystem::path> paths_;
    int flags_;
    std::vector<Fd> fds_;
    std::deque<std::uint32_t> open_;  // oldest first
};

}  // namespace tpx
