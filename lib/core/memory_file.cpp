// SPDX-License-Identifier: Apache-2.0
#include "lib/core/memory_file.hpp"

#include "lib/core/error.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

namespace tpx {
namespace {

namespace fs = std::filesystem;

constexpr int fixed_size = F_SEAL_SHRINK | F_SEAL_GROW;

/// The text of a small file; empty if it cannot be read. Files in /proc and /sys report no size.
std::string text_of(const fs::path& path) {
    std::ifstream file{path};
    std::ostringstream text;
    text << file.rdbuf();
    return file ? text.str() : "";
}

/// The number after `key`, which begins a line of `text`.
std::optional<std::uint64_t> number_after(const std::string& text, const std::string& key) {
    std::size_t at = text.starts_with(key) ? 0 : text.find("\n" + key);
    if (at == text.npos) return std::nullopt;
    at = text.find_first_of("0123456789", at + key.size());
    std::uint64_t number = 0;
    if (at == text.npos || std::from_chars(text.data() + at, text.data() + text.size(), number).ec != std::errc{})
        return std::nullopt;
    return number;
}

/// The memory left by the limit of the group at `folder`; inactive file pages do not count as used, because they can be
/// reclaimed.
std::optional<std::uint64_t> room_of_group(const fs::path& folder, const char* most, const char* used,
                                           const char* inactive) {
    const auto limit = number_after(text_of(folder / most), "");
    const auto usage = number_after(text_of(folder / used), "");
    if (!limit || !usage) return std::nullopt;  // "max": no limit
    const std::uint64_t unused = std::min(number_after(text_of(folder / "memory.stat"), inactive).value_or(0), *usage);
    return *limit - std::min(*limit, *usage - unused);
}

/// Lowers `room` to the least memory left by a group or the groups above it; `path` is the group's path below `mount`.
void add_groups(AvailableMemory& room, const fs::path& mount, fs::path path, bool unified) {
    for (path = path.relative_path();; path = path.parent_path()) {
        const auto left = unified ? room_of_group(mount / path, "memory.max", "memory.current", "inactive_file ")
                                  : room_of_group(mount / path, "memory.limit_in_bytes", "memory.usage_in_bytes",
                                                  "total_inactive_file ");
        if (left && *left < room.bytes) room = {*left, "control group " + (mount / path).string()};
        if (path.empty()) return;
    }
}

}  // namespace

Fd make_memory_file(const std::string& name, std::uint64_t size) {
    Fd fd{::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    // Other processes that open the file through /proc need permissions on its inode.
    const bool made = fd && ::fchmod(fd.get(), 0600) == 0 && ::ftruncate(fd.get(), static_cast<off_t>(size)) == 0;
    if (!made || ::fcntl(fd.get(), F_ADD_SEALS, fixed_size) != 0)
        throw failure("{}: cannot make a file of {} bytes in memory: {}", name, size, std::strerror(errno));
    return fd;
}

bool is_memory_file(const Fd& fd) {
    const int seals = ::fcntl(fd.get(), F_GET_SEALS);
    return seals >= 0 && (seals & fixed_size) == fixed_size;
}

std::uint64_t allocated_bytes(const Fd& fd) {
    constexpr std::uint64_t block = 512;
    struct stat status {};
    return ::fstat(fd.get(), &status) == 0 ? static_cast<std::uint64_t>(status.st_blocks) * block : 0;
}

AvailableMemory available_memory(const fs::path& root, const std::string& process) {
    AvailableMemory room{std::numeric_limits<std::uint64_t>::max(), "nothing"};
    if (const auto available = number_after(text_of(root / "proc/meminfo"), "MemAvailable:"))
        room = {*available * 1024, "MemAvailable"};
    std::istringstream groups{text_of(root / "proc" / process / "cgroup")};
    for (std::string line; std::getline(groups, line);) {
        const std::size_t end = line.rfind(':');
        if (line.starts_with("0::"))
            add_groups(room, root / "sys/fs/cgroup", line.substr(end + 1), true);
        else if (line.find(":memory:") != line.npos)
            add_groups(room, root / "sys/fs/cgroup/memory", line.substr(end + 1), false);
    }
    return room;
}

}  // namespace tpx
