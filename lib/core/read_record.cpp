// SPDX-License-Identifier: Apache-2.0
#include "lib/core/read_record.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"

#include <fcntl.h>

#include <atomic>
#include <cerrno>
#include <ctime>

namespace tpx {
namespace {

// A global, because open_file() has no other way to reach the record.
std::atomic<ReadRecord*> youngest{nullptr};

std::int64_t nanoseconds(const struct timespec& time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::string text_of_time(std::int64_t nanoseconds) {
    const std::time_t seconds = nanoseconds / 1'000'000'000;
    struct tm parts {};
    ::gmtime_r(&seconds, &parts);
    return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:09} UTC", parts.tm_year + 1900, parts.tm_mon + 1,
                       parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, nanoseconds % 1'000'000'000);
}

Error changed(const std::filesystem::path& path, const FileIdentity& was, const FileIdentity& is) {
    const char* what = was.inode != is.inode         ? "it was replaced"
                       : was.modified == is.modified ? "its status changed"
                                                     : "it was written to";
    return failure("{}: changed while tpx was reading the checkpoint ({}: was {}; is {})", path.string(), what,
                   to_string(was), to_string(is));
}

}  // namespace

FileIdentity::FileIdentity(const struct stat& status)
    : device{status.st_dev},
      inode{status.st_ino},
      size{static_cast<std::uint64_t>(status.st_size)},
      modified{nanoseconds(status.st_mtim)},
      changed{nanoseconds(status.st_ctim)},
      mode{status.st_mode & 07777} {}

bool FileIdentity::same_content(const FileIdentity& other) const {
    return inode == other.inode && size == other.size && modified == other.modified && changed == other.changed;
}

std::string to_string(const FileIdentity& identity) {
    return fmt::format("{} bytes, modified {}", identity.size, text_of_time(identity.modified));
}

ReadRecord::ReadRecord() : older_{youngest.exchange(this)} {}

ReadRecord::~ReadRecord() { youngest = older_; }

void ReadRecord::seal() {
    const std::lock_guard lock{mutex_};
    sealed_ = true;
}

void ReadRecord::check(const std::filesystem::path& path) const {
    const FileIdentity& was = files_.at(path);
    // Not stat(), which network file systems answer from their caches; open() asks the server.
    const Fd fd = open_file(path, O_RDONLY);
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) throw system_failure(path, errno);
    const FileIdentity is{status};
    if (!is.same_content(was)) throw changed(path, was, is);
}

void ReadRecord::note(const std::filesystem::path& path, const struct stat& status) {
    ReadRecord* record = youngest.load(std::memory_order_relaxed);
    if (record != nullptr && S_ISREG(status.st_mode)) record->add(path, FileIdentity{status});
}

void ReadRecord::note(const std::filesystem::path& path, int fd) {
    if (youngest.load(std::memory_order_relaxed) == nullptr) return;
    struct stat status {};
    if (::fstat(fd, &status) != 0) throw system_failure(path, errno);
    note(path, status);
}

void ReadRecord::add(const std::filesystem::path& path, const FileIdentity& identity) {
    const std::lock_guard lock{mutex_};
    const auto known = files_.find(path);
    if (known == files_.end()) {
        if (!sealed_) files_.emplace(path, identity);
    } else if (!known->second.same_content(identity)) {
        throw changed(path, known->second, identity);
    }
}

}  // namespace tpx
