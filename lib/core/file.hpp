// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/handle.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace tpx {

struct FdTraits {
    using Raw = int;
    static Raw null() { return -1; }
    static void free(Raw raw) noexcept;
};
using Fd = Handle<FdTraits>;

/// Opens `path` with open(2)'s `flags` and O_CLOEXEC; for reading, only a regular file or a folder. Throws Error "PATH:
/// cause".
Fd open_file(const std::filesystem::path& path, int flags, unsigned mode = 0666);

/// Reads exactly `into.size()` bytes at `offset`, continuing after short reads. Throws Error "PATH: ..." at end of file
/// or on an I/O error.
void read_at(const Fd& fd, std::uint64_t offset, std::span<std::byte> into, const std::filesystem::path& path);

/// While a ReadHook exists, read_at() calls it first, from any thread, and then older hooks. The newest hook must be
/// destroyed first.
class ReadHook {
public:
    /// Returns whether it has filled `into`; if not, the file is read.
    using Fill = std::function<bool(const Fd& fd, std::uint64_t offset, std::span<std::byte> into)>;
    explicit ReadHook(Fill fill);
    ~ReadHook();
    ReadHook(const ReadHook&) = delete;
    ReadHook& operator=(const ReadHook&) = delete;
};

/// Writes all of `from` at `offset`, continuing after short writes. Throws Error "PATH: No space left on device" and
/// the like.
void write_at(const Fd& fd, std::uint64_t offset, std::span<const std::byte> from, const std::filesystem::path& path);

/// The size of a regular file in bytes. Throws Error when the file is missing or not a regular file.
std::uint64_t size_of_file(const std::filesystem::path& path);

/// The whole content of a regular file of at most `limit` bytes. Throws Error when it is longer.
std::string read_file(const std::filesystem::path& path, std::uint64_t limit = std::uint64_t{1} << 32);

/// Atomically replaces the content of `path` with `text`; see write_file.hpp.
void write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace tpx
