// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/file_writer.hpp"

#include "lib/core/path.hpp"

#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tpx {
namespace {

// Shorter ones wait for the disk longer than the page cache costs, and for a server longer than for a disk.
constexpr std::uint64_t least_direct_on_disk = std::uint64_t{128} << 10, least_direct = std::uint64_t{512} << 10;
constexpr std::uint64_t most_direct = std::uint64_t{1} << 30;

/// Whether a file is on a disk of this machine.
bool is_on_disk(const Fd& fd) {
    struct statfs status {};
    if (::fstatfs(fd.get(), &status) != 0) return false;
    const auto kind = static_cast<std::uint32_t>(status.f_type);
    return kind == EXT4_SUPER_MAGIC || kind == XFS_SUPER_MAGIC || kind == BTRFS_SUPER_MAGIC;
}

}  // namespace

void FileWriter::write(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes) {
    written_[file] = true;
    const bool congruent = reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment == offset % alignment;
    if (!direct_works_ || !congruent || bytes.size() < least_direct_of(file, bytes.size()))
        return files_.write(file, offset, bytes);
    const std::uint64_t head = (alignment - offset % alignment) % alignment;
    files_.write(file, offset, bytes.first(head));
    const std::uint64_t done = head + write_directly(file, offset + head, bytes.subspan(head));
    files_.write(file, offset + done, bytes.subspan(done));
}

FileWriter::Shared FileWriter::share(std::uint32_t file, std::uint64_t offset, const Run& run) {
    const std::shared_ptr<Fd> fd = files_.buffered(file);
    file_clone_range range{run.fd->get(), run.offset, run.length, offset};
    written_[file] = true;
    int result = 0;
    do {
        result = ::ioctl(fd->get(), FICLONERANGE, &range);
    } while (result != 0 && errno == EINTR);
    if (result == 0) return Shared::yes;
    if (errno == EIO || errno == ENOSPC || errno == EDQUOT) throw system_failure(files_.path(file), errno);
    return errno == EOPNOTSUPP || errno == ENOTTY ? Shared::not_here : Shared::not_with_this;
}

// Looks at the file system once; all files of a job are on one.
std::uint64_t FileWriter::least_direct_of(std::uint32_t file, std::uint64_t size) {
    if (size < least_direct_on_disk) return least_direct;
    if (!on_disk_) on_disk_ = is_on_disk(*files_.buffered(file));
    return *on_disk_ ? least_direct_on_disk : least_direct;
}

// Writes whole blocks from the beginning of `bytes`; returns how many bytes. What it cannot write, buffered writing
// will, or it will say why not.
std::uint64_t FileWriter::write_directly(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes) {
    const std::uint64_t size = bytes.size() / alignment * alignment;
    std::uint64_t done = 0;
    const std::shared_ptr<Fd> fd = files_.direct(file);
    while (fd != nullptr && done < size) {
        const ssize_t put = ::pwrite(fd->get(), bytes.data() + done, std::min(size - done, most_direct),
                                     static_cast<off_t>(offset + done));
        if (put <= 0 || static_cast<std::uint64_t>(put) % alignment != 0) break;
        done += static_cast<std::uint64_t>(put);
    }
    direct_works_ = done > 0;
    return done;
}

}  // namespace tpx
