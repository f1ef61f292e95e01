// SPDX-License-Identifier: Apache-2.0
#include "lib/core/file.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file_answers.hpp"
#include "lib/core/path.hpp"
#include "lib/core/populate_pages.hpp"
#include "lib/core/read_record.hpp"
#include "lib/core/write_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace tpx {
namespace {

// read(2) and write(2) move at most 0x7ffff000 bytes a call.
constexpr std::size_t largest_call = std::size_t{1} << 30;

std::vector<ReadHook::Fill>& read_hooks() {
    static std::vector<ReadHook::Fill> fills;
    return fills;
}

thread_local int close_error = 0;  // errno of the last close(2) that failed

}  // namespace

void FdTraits::free(Raw raw) noexcept {
    if (::close(raw) != 0 && errno != EINTR) close_error = errno;  // after EINTR, the descriptor is closed anyway
}

namespace {

Fd opened(const std::filesystem::path& path, int flags, unsigned mode) {
    Fd fd;
    do {
        fd = Fd{::open(path.c_str(), flags | O_CLOEXEC, mode)};
    } while (!fd && errno == EINTR);
    if (!fd) throw system_failure(path, errno);
    return fd;
}

}  // namespace

Fd open_file(const std::filesystem::path& path, int flags, unsigned mode) {
    if ((flags & O_ACCMODE) != O_RDONLY) return opened(path, flags, mode);
    Fd fd;
    const struct stat status = answered(FileAnswers::Question::open, path, [&] {
        struct stat found {};
        fd = opened(path, flags | O_NONBLOCK, mode);  // a pipe without a writer would never open
        if (::fstat(fd.get(), &found) != 0) throw system_failure(path, errno);
        return found;
    });
    if (!fd) fd = opened("/dev/null", O_RDONLY, 0);  // FileAnswers has the contents, too
    if (FileAnswers* answers = FileAnswers::current()) answers->set_descriptor(fd.get(), path);
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) throw failure("{}: not a regular file", path.string());
    ReadRecord::note(path, status);
    return fd;
}

void close_file(Fd fd, const std::filesystem::path& path) {
    close_error = 0;
    fd = Fd{};
    if (close_error != 0) throw system_failure(path, close_error);
}

ReadHook::ReadHook(Fill fill) { read_hooks().push_back(std::move(fill)); }

ReadHook::~ReadHook() { read_hooks().pop_back(); }

namespace {

void read_from(const Fd& fd, std::uint64_t offset, std::span<std::byte> into, const std::filesystem::path& path) {
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

// Fills `into` with bytes of `file`: recorded bytes, for which it need not be open, or else bytes read from it.
void read_answer(FileAnswers& answers, const std::filesystem::path& file, const Fd& fd, std::uint64_t offset,
                 std::span<std::byte> into, const std::filesystem::path& path) {
    const std::string bytes = answers.answer(FileAnswers::Question::bytes, file, offset, into.size(), [&] {
        std::string found(into.size(), '\0');
        const auto found_bytes = std::as_writable_bytes(std::span{found});
        if (answers.records())
            read_from(fd, offset, found_bytes, path);
        else
            read_from(opened(file, O_RDONLY, 0), offset, found_bytes, path);
        return found;
    });
    std::memcpy(into.data(), bytes.data(), into.size());
}

}  // namespace

void read_at(const Fd& fd, std::uint64_t offset, std::span<std::byte> into, const std::filesystem::path& path) {
    for (auto hook = read_hooks().rbegin(); hook != read_hooks().rend(); ++hook)
        if ((*hook)(fd, offset, into)) return;
    FileAnswers* answers = FileAnswers::current();
    const auto file = answers != nullptr ? answers->path_of(fd.get()) : std::nullopt;
    if (file) return read_answer(*answers, *file, fd, offset, into, path);
    read_from(fd, offset, into, path);
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
    const struct stat status = answered(FileAnswers::Question::size, path, [&] {
        struct stat found {};
        int result = 0;
        do {
            result = ::stat(path.c_str(), &found);
        } while (result != 0 && errno == EINTR);
        if (result != 0) throw system_failure(path, errno);
        return found;
    });
    if (!S_ISREG(status.st_mode)) throw failure("{}: not a regular file", path.string());
    ReadRecord::note(path, status);
    return static_cast<std::uint64_t>(status.st_size);
}

std::string read_file(const std::filesystem::path& path, std::uint64_t limit) {
    const std::uint64_t size = size_of_file(path);
    if (size > limit) throw failure("{}: {} bytes, at most {} were expected", path.string(), size, limit);
    std::string content;
    content.reserve(size);
    populate_pages(content.data(), size);
    content.resize(size);
    read_at(open_file(path, O_RDONLY), 0, std::as_writable_bytes(std::span{content}), path);
    return content;
}

}  // namespace tpx
