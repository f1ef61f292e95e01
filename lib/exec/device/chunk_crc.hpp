// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/device/element.hpp"

#include <cstddef>
#include <cstdint>

// The CRC-32 of zip over memory of a GPU, for the host and for GPUs: one thread takes a chunk, the host joins them.
namespace tpx {

/// Bytes whose checksum one thread computes.
struct CrcChunk {
    static constexpr std::uint32_t longest = 16384;

    const std::byte* bytes = nullptr;
    std::uint32_t size = 0;  ///< at most `longest`
};

/// Crc32::of() the chunk: without initial value and final inversion.
TPX_HOST_DEVICE inline std::uint32_t chunk_crc(const CrcChunk& chunk) {
    constexpr std::uint32_t of_nibble[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                             0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                             0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    std::uint32_t crc = 0;
    for (std::uint32_t k = 0; k < chunk.size; ++k) {
        crc ^= static_cast<std::uint32_t>(chunk.bytes[k]);
        crc = crc >> 4 ^ of_nibble[crc & 15];
        crc = crc >> 4 ^ of_nibble[crc & 15];
    }
    return crc;
}

}  // namespace tpx
