// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/coding.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// Undoes the filters of a coding, chunk by chunk, in buffers that it keeps.
class Decoder {
public:
    /// Where the stored bytes of a chunk are to be put before decode(); `length` bytes.
    std::span<std::byte> stored(std::uint64_t length);

    /// Decodes the chunk whose bytes are in stored() to `into`, which has exactly its size. Throws Error when the
    /// stored bytes do not decode to just as many, or when a checksum is not that of its bytes.
    void decode(const Coding& coding, std::uint32_t skipped, std::span<std::byte> into);

private:
    std::vector<std::byte> stored_;
    std::vector<std::byte> spare_;
    std::size_t length_ = 0;
};

/// The most memory that reading from a file with `coding` takes beside what is read into.
std::uint64_t decoding_memory(const Coding& coding);

/// HDF5's checksum of `bytes`: Fletcher's, over big-endian words of 16 bits.
std::uint32_t fletcher32(std::span<const std::byte> bytes);

}  // namespace tpx
