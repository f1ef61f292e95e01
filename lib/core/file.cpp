// SPDX-License-Identifier: Apache-2.0
#include "lib/core/file.hpp"

#include "lib/core/error.hpp"
#include "lib/core/pages.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace tpx {
namespace {

// read(2) and write(2) move at most 0x7ffff000 bytes a call.
constexpr std::size_t largest_call = std::size_t{1} << 30;

Error system_failure(const std::filesystem::path& path, int code) {
    return failure("{}: {}", path.string(), std::strerror(code));
}

}  // namespace

void FdTraits::free(Raw raw) noexcept { ::close(raw); }

Fd open_file(const std::filesystem::path& path, int flags, unsigned mode) {
    Fd fd{::open(path.c_str(), flags | O_CLOEXEC, mode)};
    if (!fd) throw system_failure(path, errno);
    return fd;
}

void read_at(const Fd& fd, std::uint64_t offset, std::span<std::byte> into, const std::filesystem::path& path) {
    while (!into.empty()) {
        const ssize_t got =
            ::pread(fd.get(), into.data(), std::min(into.size(), largest_call), static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw system_failure(path, errno);
        if (got == 0)
            throw failure("{}: file ends at byte {}, {} more were expected", path.string(), offset, into.size());
        into = into.subspan(static_cast<std::size_t>(got));
        offset += static_cast<std::uint64_t>(got);
    }
}

void write_at(const Fd& fd, std::uint64_t offset, std::span<const std::byte> from, const std::filesystem::path& path) {
    while (!from.empty()) {
        const ssize_t put =
            ::pwrite(fd.get(), from.data(), std::min(from.size(), largest_call), static_cast<off_t>(offset));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) throw system_failure(path, errno);
        from = from.subspan(static_cast<std::size_t>(put));
        offset += static_cast<std::uint64_t>(put);
    }
}

std::uint64_t size_of_file(const std::filesystem::path& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) throw system_failure(path, errno);
    if (!S_ISREG(status.st_mode)) throw failure("{}: not a regular file", path.string());
    return static_cast<std::uint64_t>(status.st_size);
}

std::string read_file(const std::filesystem::path& path, std::uint64_t limit) {
    const std::uint64_t size = size_of_file(path);
    if (size > limit) throw failure("{}: {} bytes, at most {} were expected", path.string(), size, limit);
    std::string content;
    content.reserve(size);
    take_pages(content.data(), size);
    content.resize(size);
    read_at(open_file(path, O_RDONLY), 0, std::as_writable_bytes(std::span{content}), path);
    return content;
}

void write_file(const std::filesystem::path& path, std::string_view text) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span{text});
    struct stat status {};
    // A pipe or a terminal has no old content to keep, and cannot be written at an offset.
    if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
        std::ofstream stream{path, std::ios::binary};
        if (!(stream << text << std::flush)) throw system_failure(path, errno);
        return;
    }
    std::filesystem::path partial = path;
    partial += fmt::format(".partial-{}", ::getpid());
    try {
        const Fd file = open_file(partial, O_WRONLY | O_CREAT | O_EXCL);
        write_at(file, 0, bytes, partial);
        if (::fsync(file.get()) != 0 || ::rename(partial.c_str(), path.c_str()) != 0) throw system_failure(path, errno);
    } catch (...) {
        ::unlink(partial.c_str());
        throw;
    }
}

}  // namespace tpx
