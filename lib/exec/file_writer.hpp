// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/open_files.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace tpx {

/// Writes parts of files that exist, long ones past the page cache: it would only be filled with what nobody reads, and
/// be emptied in the end. For one thread.
class FileWriter {
public:
    /// Bytes go past the page cache where their address is congruent to their offset modulo this.
    static constexpr std::uint64_t alignment = 4096;

    /// `paths` must outlive this.
    explicit FileWriter(std::span<const std::filesystem::path> paths);

    /// Writes all of `bytes`. Throws Error "PATH: No space left on device" and the like.
    void write(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes);

    /// Closes the files. Throws Error when one cannot be closed, as its bytes may be lost then.
    void close();

    /// Whether anything was written to `file`.
    bool has_written(std::size_t file) const { return written_[file]; }

private:
    std::uint64_t write_directly(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes);

    OpenFiles buffered_;
    OpenFiles direct_;
    bool direct_works_ = true;
    std::vector<bool> written_;
};

}  // namespace tpx
