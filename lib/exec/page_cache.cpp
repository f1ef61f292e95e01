// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/page_cache.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace tpx {
namespace {

/// Whether any of the first pages of a file of `size` bytes are in memory.
bool is_resident(const Fd& fd, std::uint64_t size) {
    constexpr std::uint64_t looked_at = std::uint64_t{4} << 20;
    const std::size_t length = std::min(size, looked_at);
    if (length == 0) return false;
    void* const mapped = ::mmap(nullptr, length, PROT_NONE, MAP_SHARED, fd.get(), 0);
    if (mapped == MAP_FAILED) return false;
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> pages((length + page - 1) / page);
    const bool known = ::mincore(mapped, length, pages.data()) == 0;
    ::munmap(mapped, length);
    return known && std::ranges::any_of(pages, [](unsigned char state) { return (state & 1) != 0; });
}

}  // namespace

bool drop_from_page_cache(const std::filesystem::path& path) {
    const Fd fd = open_file(path, O_RDONLY);
    while (::fsync(fd.get()) != 0)
        if (errno != EINTR) throw failure("{}: fsync: {}", path.string(), std::strerror(errno));
    // This is only advice: file systems may keep the pages.
    ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    return !is_resident(fd, size_of_file(path));
}

}  // namespace tpx
