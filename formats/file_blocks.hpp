// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// File systems that can share blocks between files share a run of bytes only where it begins at the same place in a
// block of both.
namespace tpx::formats {

/// Bytes of a block of most file systems.
inline constexpr std::uint64_t block_size = 4096;

/// Smaller payloads lie where they come to lie: what aligns them would make files noticeably longer.
inline constexpr std::uint64_t least_aligned = std::uint64_t{256} << 10;

/// How many bytes lie between byte `at` of a file and the next one that is byte `place` of a block.
constexpr std::uint64_t gap_to(std::uint64_t at, std::uint64_t place) {
    return (place + block_size - at % block_size) % block_size;
}

}  // namespace tpx::formats
