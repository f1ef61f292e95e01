// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/target_files.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tpx {

/// Writes parts of existing files. Long parts bypass the page cache, which they would only fill with bytes that are not
/// read and must be flushed in the end. For one thread.
class FileWriter {
public:
    /// Bytes can bypass the page cache if their address is congruent to their file offset modulo this.
    static constexpr std::uint64_t alignment = 4096;

    /// Writes parts of `count` files, which must outlive this.
    FileWriter(TargetFiles& files, std::size_t count) : files_{files}, written_(count) {}

    /// Writes all of `bytes`. Throws Error "PATH: No space left on device" and the like.
    void write(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes);

    /// Bytes of another file.
    struct Run {
        const Fd* fd;
        std::uint64_t offset;
        std::uint64_t length;
    };
    enum class Shared { yes, not_with_this, not_here };

    /// Makes `file` share the blocks of `run` from `offset` on, instead of writing their bytes. Precondition: all three
    /// numbers are multiples of the block size. If the result is not `yes`, the bytes must be written: this source file
    /// cannot share its blocks (not_with_this), or no file can here (not_here). Throws Error "PATH: No space left on
    /// device" and the like.
    Shared share(std::uint32_t file, std::uint64_t offset, const Run& run);

    /// Whether anything was written to `file`.
    bool has_written(std::size_t file) const { return written_[file]; }

    /// Whether the file system refused a direct write.
    bool was_refused_direct() const { return refused_direct_; }

private:
    bool is_worth_direct(std::uint32_t file, std::uint64_t size);
    std::uint64_t write_directly(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes);

    TargetFiles& files_;
    bool direct_works_ = true;
    bool refused_direct_ = false;
    std::optional<bool> on_ext4_;
    std::vector<bool> written_;
};

}  // namespace tpx
