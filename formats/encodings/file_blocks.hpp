// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// File systems that can share blocks between files share a run of bytes only if it begins at the same offset within a
// block in both files.
namespace tpx::formats {

/// The block size of most file systems, in bytes.
inline constexpr std::uint64_t block_size = 4096;

/// The smallest payload that is aligned, in bytes: gaps before smaller ones would make files noticeably longer.
inline constexpr std::uint64_t min_aligned_bytes = std::uint64_t{256} << 10;

/// The number of bytes from offset `at` to the next offset whose position within its block is `place`.
constexpr std::uint64_t gap_to(std::uint64_t at, std::uint64_t place) {
    return (place + block_size - at % block_size) % block_size;
}

}  // namespace tpx::formats
