// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

/// The records of a zip file (PKWARE's APPNOTE): signatures, and sizes without fields of variable length.
namespace tpx::torch::zip {

inline constexpr std::uint32_t local_signature = 0x04034b50;
inline constexpr std::uint32_t entry_signature = 0x02014b50;
inline constexpr std::uint32_t end_signature = 0x06054b50;
inline constexpr std::uint32_t end64_signature = 0x06064b50;
inline constexpr std::uint32_t locator_signature = 0x07064b50;

inline constexpr std::size_t local_size = 30;
inline constexpr std::size_t entry_size = 46;
inline constexpr std::size_t crc_at = 16, crc_size = 4;  // in the record of a member
inline constexpr std::size_t end_size = 22;
inline constexpr std::size_t end64_size = 56;
inline constexpr std::size_t locator_size = 20;

/// The little-endian number of `bytes` bytes at `position`. Precondition: it is inside `record`; bytes <= 8.
inline std::uint64_t field(std::string_view record, std::size_t position, std::size_t bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, record.data() + position, bytes);
    return value;
}

/// Appends a little-endian number. Precondition: bytes <= 8.
inline void put(std::string& record, std::uint64_t value, std::size_t bytes) {
    record.append(reinterpret_cast<const char*>(&value), bytes);
}

}  // namespace tpx::torch::zip
