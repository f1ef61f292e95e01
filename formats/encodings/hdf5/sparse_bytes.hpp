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

/// The bytes of a file in memory, of which only those blocks that were written take room; all others are zero. Unlike a
/// file in memory of the system's, writing it meets no limit on the size of files and no full disk, from which libhdf5
/// does not recover.
class SparseBytes {
public:
    static constexpr std::uint64_t block_size = 4096;

    /// A run of blocks that were written: the last ends with the file.
    struct Run {
        std::uint64_t offset = 0;
        std::string bytes;
    };

    std::uint64_t size() const { return size_; }

    /// Cuts the file at `size`, or adds zeros up to it.
    void resize(std::uint64_t size);

    void write(std::uint64_t offset, std::span<const std::byte> bytes);

    /// Fills `into` with the bytes from `offset` on; beyond the end they are zero.
    void read(std::uint64_t offset, std::span<std::byte> into) const;

    /// All that was written, in order; runs do not touch.
    std::vector<Run> runs() const;

private:
    using Block = std::array<std::byte, block_size>;

    std::map<std::uint64_t, std::unique_ptr<Block>> blocks_;  // by number
    std::uint64_t size_ = 0;
};

}  // namespace tpx::formats::hdf5
