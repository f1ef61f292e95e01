// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/file.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace tpx {

/// A file of `size` zero bytes in memory, without a path. The kernel frees it with its last descriptor and mapping,
/// even if processes are killed. Its size is fixed, so a mapping of it is never truncated. `name` is shown in /proc.
/// Throws Error if it cannot be created.
Fd make_memory_file(const std::string& name, std::uint64_t size);

/// Whether `fd` is a file in memory whose size is fixed.
bool is_memory_file(const Fd& fd);

/// The bytes of a file in memory that occupy memory, because they were written or reserved.
std::uint64_t allocated_bytes(const Fd& fd);

/// How much memory processes can still allocate, and what limits it.
struct AvailableMemory {
    std::uint64_t bytes = 0;
    std::string limit;  ///< "MemAvailable", or the folder of the control group whose limit is lower
};

/// The memory left by the limits of the system and of the control groups of a process, by default this one. Files in
/// /proc and /sys are looked up below `root`. If no limit can be read, `bytes` is the largest number.
AvailableMemory available_memory(const std::filesystem::path& root = "/", const std::string& process = "self");

}  // namespace tpx
