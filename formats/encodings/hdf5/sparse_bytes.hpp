// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tpx::formats::hdf5 {

/// The bytes of a file in memory. Only blocks that were written use memory; all others are zero. Unlike a file in
/// tmpfs, it cannot hit a file size limit or a full file system, from which libhdf5 does not recover.
class SparseBytes {
public:
    static constexpr std::uint64_t block_size = 4096;

    /// A run of adjacent blocks that were written. No run extends beyond the end of the file.
    struct Run {
        std::uint64_t offset = 0;
        std::string bytes;
    };

    std::uint64_t size() const { return size_; }

    /// Truncates the file to `size` bytes, or extends it with zeros.
    void resize(std::uint64_t size);

    void write(std::uint64_t offset, std::span<const std::byte> bytes);

    /// Fills `into` with the bytes at `offset`; bytes beyond the end of the file are zero.
    void read(std::uint64_t offset, std::span<std::byte> into) const;

    /// All blocks that were written, in order; adjacent blocks are in one run.
    std::vector<Run> runs() const;

private:
    using Block = std::array<std::byte, block_size>;

    std::map<std::uint64_t, std::unique_ptr<Block>> blocks_;  // by number
    std::uint64_t size_ = 0;
};

}  // namespace tpx::formats::hdf5
