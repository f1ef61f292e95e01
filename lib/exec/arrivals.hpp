// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/file.hpp"
#include "lib/exec/byte_ranges.hpp"
#include "lib/exec/tiles.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>

namespace tpx {

/// The bytes that have arrived in a source file that one thread fills while others read it.
class Arrivals {
public:
    /// `file` is the number of the file among the source files, `path` the file itself. If `once`, bytes may be
    /// discarded after a tile has read them.
    Arrivals(std::uint32_t file, const std::filesystem::path& path, bool once);

    /// The number of the file among the source files.
    std::uint32_t file() const { return file_; }

    /// Records that the file contains the bytes of `range`.
    void add(ByteRange range);

    /// Records that nothing more will arrive.
    void stop();

    /// Whether all bytes that a tile reads from the file have arrived.
    bool contain(const Tile& tile) const;

    /// Discards the bytes that a tile has read, before they take up disk space.
    void discard(const Tile& tile) const;

    /// The number of calls of add() so far.
    std::uint64_t count() const;

    /// Waits until count() exceeds `count`, for at most `patience`. Throws Error once nothing more will arrive.
    void wait(std::uint64_t count, std::chrono::milliseconds patience);

private:
    std::uint32_t file_;
    Fd fd_;  // empty: nothing is discarded
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    ByteRanges ranges_;
    std::uint64_t count_ = 0;
    bool stopped_ = false;
};

}  // namespace tpx
