// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/file.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

namespace tpx {

/// A mapping of a file into memory, which outlives the file descriptor. If another process truncates the file, access
/// to the missing bytes ends this process; the files of make_memory_file() cannot be truncated.
class MappedFile {
public:
    enum class Access { read, write };

    /// Maps the first `size` bytes of a file. Throws Error "PATH: cause".
    MappedFile(const Fd& file, std::uint64_t size, Access access, const std::filesystem::path& path);
    ~MappedFile();
    MappedFile(MappedFile&& other) noexcept : bytes_{std::exchange(other.bytes_, {})} {}
    MappedFile& operator=(MappedFile other) noexcept {
        std::swap(bytes_, other.bytes_);
        return *this;
    }

    /// Precondition for writing to them: the file was mapped with Access::write.
    std::span<std::byte> bytes() const { return bytes_; }

private:
    std::span<std::byte> bytes_;
};

}  // namespace tpx
