// SPDX-License-Identifier: Apache-2.0
#include "lib/core/path.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file_answers.hpp"
#include "lib/core/handle.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

namespace tpx {
namespace {

namespace fs = std::filesystem;

struct DirTraits {
    using Raw = DIR*;
    static Raw null() { return nullptr; }
    static void free(Raw raw) noexcept { ::closedir(raw); }
};
using Dir = Handle<DirTraits>;

bool means_absent(int code) { return code == ENOENT || code == ENOTDIR; }

// On some file systems (NFS, FUSE), signals interrupt these calls.
template <class Call>
auto retried(Call&& call) {
    auto result = call();
    while (result == decltype(result)(-1) && errno == EINTR) result = call();
    return result;
}

// The mode of `path`; nothing when it is absent.
std::optional<mode_t> mode_of(const fs::path& path, int flags) {
    const auto question = flags == 0 ? FileAnswers::Question::status : FileAnswers::Question::link_status;
    return answered(question, path, [&]() -> std::optional<mode_t> {
        struct stat status {};
        if (retried([&] { return ::fstatat(AT_FDCWD, path.c_str(), &status, flags); }) == 0) return status.st_mode;
        if (!means_absent(errno)) throw system_failure(path, errno);
        return std::nullopt;
    });
}

Dir open_directory(const fs::path& path) {
    Dir directory;
    do {
        directory = Dir{::opendir(path.c_str())};
    } while (!directory && errno == EINTR);
    if (!directory && !means_absent(errno)) throw system_failure(path, errno);
    return directory;
}

struct Entry {
    std::string name;
    unsigned char type;  // DT_REG and so on; DT_UNKNOWN if the file system does not report it
};

std::vector<Entry> entries_of(const fs::path& path) {
    std::vector<Entry> entries;
    const Dir directory = open_directory(path);
    if (!directory) return entries;
    for (;;) {
        errno = 0;
        const dirent* entry = ::readdir(directory.get());
        if (entry == nullptr && errno == EINTR) continue;
        if (entry == nullptr && errno != 0) throw system_failure(path, errno);
        if (entry == nullptr) break;
        const std::string_view name{entry->d_name};
        if (name != "." && name != "..") entries.push_back({std::string{name}, entry->d_type});
    }
    std::ranges::sort(entries, {}, &Entry::name);
    return entries;
}

// Types and names; each name ends with a NUL.
std::string packed(const std::vector<Entry>& entries) {
    std::string bytes;
    for (const Entry& entry : entries) {
        bytes += static_cast<char>(entry.type);
        bytes += entry.name + '\0';
    }
    return bytes;
}

std::vector<Entry> unpacked(const std::string& bytes) {
    std::vector<Entry> entries;
    for (std::size_t at = 0; at < bytes.size(); at += 2 + entries.back().name.size())
        entries.push_back({bytes.c_str() + at + 1, static_cast<unsigned char>(bytes[at])});
    return entries;
}

std::vector<Entry> read_entries(const fs::path& path) {
    FileAnswers* answers = FileAnswers::current();
    if (answers == nullptr) return entries_of(path);
    return unpacked(
        answers->answer(FileAnswers::Question::entries, path, 0, 0, [&] { return packed(entries_of(path)); }));
}

using Accepts = std::function<bool(const fs::path&)>;

bool any_below(const fs::path& root, const fs::path& inside, const Accepts& accepts) {
    for (const Entry& entry : read_entries(inside.empty() ? root : root / inside)) {
        const fs::path path = inside / entry.name;
        unsigned char type = entry.type;
        if (type == DT_UNKNOWN) {
            const std::optional<mode_t> mode = mode_of(root / path, AT_SYMLINK_NOFOLLOW);
            if (mode) type = static_cast<unsigned char>(IFTODT(*mode));
        }
        if (type == DT_DIR && any_below(root, path, accepts)) return true;
        const bool is_file = type == DT_REG || (type == DT_LNK && path_is_file(root / path));
        if (is_file && accepts(path)) return true;
    }
    return false;
}

}  // namespace

Error system_failure(const fs::path& path, int code) { return failure("{}: {}", path.string(), std::strerror(code)); }

PathKind path_kind(const fs::path& path) {
    const std::optional<mode_t> mode = mode_of(path, 0);
    if (!mode) return PathKind::absent;
    if (S_ISREG(*mode)) return PathKind::file;
    return S_ISDIR(*mode) ? PathKind::directory : PathKind::other;
}

bool path_exists(const fs::path& path) { return path_kind(path) != PathKind::absent; }

bool path_is_file(const fs::path& path) { return path_kind(path) == PathKind::file; }

bool path_is_directory(const fs::path& path) { return path_kind(path) == PathKind::directory; }

bool entry_exists(const fs::path& path) { return mode_of(path, AT_SYMLINK_NOFOLLOW).has_value(); }

std::vector<std::string> list_directory(const fs::path& directory) {
    std::vector<std::string> names;
    for (Entry& entry : read_entries(directory)) names.push_back(std::move(entry.name));
    return names;
}

std::vector<fs::path> list_files_below(const fs::path& directory) {
    std::vector<fs::path> files;
    any_file_below(directory, [&](const fs::path& file) {
        files.push_back(file);
        return false;
    });
    return files;
}

bool any_file_below(const fs::path& directory, const Accepts& accepts) { return any_below(directory, {}, accepts); }

void make_directories(const fs::path& path) {
    if (path.empty() || ::mkdir(path.c_str(), 0777) == 0) return;
    if (errno == ENOENT && path.has_parent_path() && path.parent_path() != path) {
        make_directories(path.parent_path());
        if (::mkdir(path.c_str(), 0777) == 0) return;
    }
    const int code = errno;
    if (code != EEXIST || !path_is_directory(path)) throw system_failure(path, code);
}

namespace {

std::string resolved(const fs::path& path) {
    const std::unique_ptr<char, decltype(&std::free)> real{::realpath(path.c_str(), nullptr), &std::free};
    if (real) return real.get();
    const int code = errno;
    struct stat status {};
    // A link in /proc to a file in memory, which has no other path.
    if (code == ENOENT && path.has_parent_path() && ::stat(path.c_str(), &status) == 0 && status.st_nlink == 0)
        return fs::path{resolved(path.parent_path())} / path.filename();
    throw system_failure(path, code);
}

}  // namespace

fs::path real_path(const fs::path& path) {
    FileAnswers* answers = FileAnswers::current();
    if (answers == nullptr) return resolved(path);
    return answers->answer(FileAnswers::Question::real_path, path, 0, 0, [&] { return resolved(path); });
}

}  // namespace tpx
