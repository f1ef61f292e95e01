// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/file_writer.hpp"

#include "lib/core/error.hpp"
#include "lib/core/path.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tpx {
namespace {

// Below these sizes, waiting for a direct write costs more than copying into the page cache. Of local disks, only ext4
// has been measured.
constexpr std::uint64_t least_direct_on_ext4 = std::uint64_t{128} << 10, least_direct = std::uint64_t{512} << 10;
constexpr std::uint64_t most_direct = std::uint64_t{1} << 30;

bool is_on_ext4(const Fd& fd) {
    struct statfs status {};
    return ::fstatfs(fd.get(), &status) == 0 && static_cast<std::uint32_t>(status.f_type) == EXT4_SUPER_MAGIC;
}

// File systems without direct I/O return EINVAL or EOPNOTSUPP.
bool refuses_direct(const std::filesystem::path& path) {
    return !Fd{::open(path.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC)} && (errno == EINVAL || errno == EOPNOTSUPP);
}

}  // namespace

void FileWriter::write(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes) {
    written_[file] = true;
    const bool congruent = reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment == offset % alignment;
    if (!direct_works_ || !congruent || !is_worth_direct(file, bytes.size())) return files_.write(file, offset, bytes);
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

bool FileWriter::is_worth_direct(std::uint32_t file, std::uint64_t size) {
    if (size >= least_direct) return true;
    if (size < least_direct_on_ext4) return false;
    if (!on_ext4_) on_ext4_ = is_on_ext4(*files_.buffered(file));  // all files of a job are on one file system
    return *on_ext4_;
}

// Writes the whole blocks at the beginning of `bytes` with direct I/O and returns the number of bytes written; the
// caller writes the rest through the page cache, which also reports errors.
std::uint64_t FileWriter::write_directly(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes) {
    const std::uint64_t size = bytes.size() / alignment * alignment;
    std::uint64_t done = 0;
    const std::shared_ptr<Fd> fd = files_.direct(file);
    if (fd == nullptr && refuses_direct(files_.path(file))) refused_direct_ = true;
    bool failed = false;
    while (fd != nullptr && done < size) {
        const ssize_t put = ::pwrite(fd->get(), bytes.data() + done, std::min(size - done, most_direct),
                                     static_cast<off_t>(offset + done));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0 && done == 0 && (errno == EINVAL || errno == EOPNOTSUPP)) refused_direct_ = true;
        failed = put < 0 && errno != EINVAL && errno != EOPNOTSUPP;
        if (put <= 0 || static_cast<std::uint64_t>(put) % alignment != 0) break;
        done += static_cast<std::uint64_t>(put);
    }
    direct_works_ = done > 0 || failed;  // a disk error does not mean that direct writes do not work
    return done;
}

}  // namespace tpx
