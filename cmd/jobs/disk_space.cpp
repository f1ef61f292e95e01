// SPDX-License-Identifier: Apache-2.0
#include "cmd/jobs/disk_space.hpp"

#include "lib/core/error.hpp"
#include "lib/core/path.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <optional>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;

/// The status of the file system of `folder`; nothing if it is unknown.
std::optional<struct statvfs> file_system_of(const fs::path& folder) {
    struct statvfs status {};
    if (::statvfs(folder.c_str(), &status) != 0 || status.f_frsize == 0) return std::nullopt;
    return status;
}

/// Bytes that the files below `path` take on disk.
std::uint64_t allocated(const fs::path& path) {
    struct stat own {};
    if (::lstat(path.c_str(), &own) != 0) return 0;
    std::uint64_t sum = static_cast<std::uint64_t>(own.st_blocks) * 512;
    if (S_ISDIR(own.st_mode))
        for (const std::string& name : list_directory(path)) sum += allocated(path / name);
    return sum;
}

}  // namespace

std::uint64_t bytes_on_disk(const fs::path& folder, std::span<const FileEntry> files, std::uint64_t inbox) {
    constexpr std::uint64_t blocks_beside = 16;  // folders, journals, records
    const auto system = file_system_of(folder);
    const std::uint64_t block = system ? system->f_frsize : 1;
    const auto on_disk = [block](std::uint64_t size) { return (size + block - 1) / block * block; };
    std::uint64_t sum = blocks_beside * block + on_disk(inbox);
    for (const FileEntry& file : files) sum += on_disk(file.size);
    return sum;
}

void check_disk_space(const fs::path& folder, std::uint64_t needed, const fs::path& parent, const std::string& prefix,
                      std::string_view advice) {
    const auto system = file_system_of(folder);
    if (!system) return;
    std::uint64_t room = std::uint64_t{system->f_bavail} * system->f_frsize;
    if (needed <= room) return;
    for (const std::string& name : list_directory(parent))
        if (name.starts_with(prefix)) room += allocated(parent / name);
    if (needed > room)
        throw failure("{}: not enough disk space ({} bytes needed, {} available){}", folder.string(), needed, room,
                      advice);
}

}  // namespace tpx::cli
