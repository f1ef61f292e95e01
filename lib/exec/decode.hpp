// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/coding.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// Undoes the filters of a coding, chunk by chunk, and reuses its buffers.
class Decoder {
public:
    /// The buffer for the `length` stored bytes of a chunk, to be filled before decode().
    std::span<std::byte> stored(std::uint64_t length);

    /// Decodes the chunk whose bytes are in stored() to `into`, which has exactly its size. Throws Error if the stored
    /// bytes do not decode to exactly that size, or if a checksum does not match its bytes.
    void decode(const Coding& coding, std::uint32_t skipped, std::span<std::byte> into);

private:
    std::vector<std::byte> stored_;
    std::vector<std::byte> spare_;
    std::size_t length_ = 0;
};

/// The most memory that reading from a file with `coding` takes in addition to the destination.
std::uint64_t decoding_memory(const Coding& coding);

/// HDF5's checksum of `bytes`: Fletcher-32 over big-endian 16-bit words.
std::uint32_t fletcher32(std::span<const std::byte> bytes);

}  // namespace tpx
