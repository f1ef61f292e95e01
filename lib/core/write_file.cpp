// SPDX-License-Identifier: Apache-2.0
#include "lib/core/write_file.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

namespace tpx {
namespace {

namespace fs = std::filesystem;

// The exit status in tpx(1) for an output that is in place although a later step failed.
constexpr Exit exit_in_place{4};

fs::path directory_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path{"."}; }

/// The descriptor that a path such as /dev/stdout or /proc/self/fd/3 stands for.
std::optional<int> descriptor_of(const fs::path& path) {
    const std::string text = path.string();
    if (text == "/dev/stdout") return STDOUT_FILENO;
    if (text == "/dev/stderr") return STDERR_FILENO;
    for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
        if (!text.starts_with(folder)) continue;
        int number = 0;
        const char* last = text.data() + text.size();
        const auto [end, error] = std::from_chars(text.data() + folder.size(), last, number);
        if (error == std::errc{} && end == last && number >= 0) return number;
    }
    return std::nullopt;
}

/// In a directory that everyone can write to, somebody may have planted a link to have another file replaced. Linux
/// refuses to follow such links (fs.protected_symlinks); renaming needs the same care.
void check_link(const fs::path& link, const struct stat& status) {
    struct stat folder {};
    if (::stat(directory_of(link).c_str(), &folder) != 0) throw system_failure(link, errno);
    const bool shared = (folder.st_mode & S_ISVTX) != 0 && (folder.st_mode & S_IWOTH) != 0;
    if (shared && status.st_uid != ::geteuid() && status.st_uid != folder.st_uid)
        throw failure(
            "{}: a link that another user made in a directory that everyone can write to; name the file itself",
            link.string());
}

/// Follows the links at `path`, but not into the folder of open descriptors.
fs::path without_links(fs::path path) {
    constexpr int most_links = 40;
    const fs::path given = path;
    for (int k = 0; k < most_links; ++k) {
        struct stat status {};
        if (descriptor_of(path)) return path;
        if (::lstat(path.c_str(), &status) != 0) {
            if (errno == ENOENT || errno == ENOTDIR) return path;
            throw system_failure(given, errno);
        }
        if (!S_ISLNK(status.st_mode)) return path;
        check_link(path, status);
        std::error_code error;
        const fs::path target = fs::read_symlink(path, error);
        if (error) throw system_failure(given, error.value());
        path = directory_of(path) / target;
    }
    throw system_failure(given, ELOOP);
}

std::string random_ending() {
    std::uint64_t bits = 0;
    if (::getrandom(&bits, sizeof bits, GRND_NONBLOCK) != sizeof bits)
        bits = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) ^
               static_cast<std::uint64_t>(::getpid()) << 40;
    return fmt::format(".partial-{:016x}", bits);
}

/// Where the content of `path` goes: into the open descriptor `descriptor`, into the special file `file`, or else into
/// a new file that replaces the regular file `file`. `old` is the state of `file` if it exists.
struct Target {
    fs::path path;  ///< as given, for messages
    fs::path file;
    std::optional<int> descriptor;
    std::optional<struct stat> old;

    bool is_special() const { return old && !S_ISREG(old->st_mode); }
};

Target find_target(const fs::path& path) {
    Target target{.path = path, .file = without_links(path), .descriptor = {}, .old = {}};
    target.descriptor = descriptor_of(target.file);
    if (target.descriptor) return target;
    struct stat status {};
    if (::stat(target.file.c_str(), &status) == 0)
        target.old = status;
    else if (errno != ENOENT)
        throw system_failure(path, errno);
    if (target.old && S_ISDIR(status.st_mode)) throw system_failure(path, EISDIR);
    if (!target.old && !target.file.has_filename()) throw system_failure(path, target.file.empty() ? ENOENT : EISDIR);
    if (target.old && ::faccessat(AT_FDCWD, target.file.c_str(), W_OK, AT_EACCESS) != 0)
        throw system_failure(path, errno);
    return target;
}

void write_all(int fd, std::string_view text, const fs::path& path) {
    constexpr std::size_t largest_write = std::size_t{1} << 30;
    while (!text.empty()) {
        const ssize_t put = ::write(fd, text.data(), std::min(text.size(), largest_write));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) throw system_failure(path, errno);
        text.remove_prefix(static_cast<std::size_t>(put));
    }
}

/// Returns errno, or 0.
int sync(int fd) {
    int result = 0;
    do {
        result = ::fsync(fd);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}

/// A new file beside the target; deleted unless it replaces the target.
class NewFile {
public:
    explicit NewFile(const Target& target, mode_t permissions = 0666) : target_{target} {
        constexpr std::size_t longest_start = 200;  // names end at 255 bytes
        const fs::path directory = directory_of(target.file);
        const std::string start = target.file.filename().string().substr(0, longest_start);
        const mode_t mode = target.old ? 0600 : permissions;  // replaced files may be private
        do {
            path_ = directory / (start + random_ending());
            fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        } while (fd_ < 0 && (errno == EEXIST || errno == EINTR));
        if (fd_ >= 0) return;
        const int code = errno;
        if (code == ENOENT || code == ENOTDIR) throw system_failure(target.path, code);
        throw failure("{}: cannot create a file in {}: {}", target.path.string(), directory.string(),
                      std::strerror(code));
    }
    NewFile(const NewFile&) = delete;
    ~NewFile() {
        if (fd_ >= 0) ::close(fd_);
        if (!path_.empty()) ::unlink(path_.c_str());
    }

    void write(std::string_view text) {
        write_all(fd_, text, target_.path);
        if (target_.old) take_mode(*target_.old);
        if (const int code = sync(fd_); code != 0) throw system_failure(target_.path, code);
        if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) throw system_failure(target_.path, errno);
    }

    void replace_target() {
        if (::rename(path_.c_str(), target_.file.c_str()) != 0) throw system_failure(target_.path, errno);
        path_.clear();
        sync_directory();
    }

private:
    /// Keeps the owner of the file, too, where that is permitted: only root may change owners.
    void take_mode(const struct stat& old) {
        if (::fchown(fd_, old.st_uid, old.st_gid) != 0 && errno != EPERM) throw system_failure(target_.path, errno);
        if (::fchmod(fd_, old.st_mode & 0777) != 0) throw system_failure(target_.path, errno);
    }

    void sync_directory() const {
        const auto unknown = [&](int code) {
            return Error{exit_in_place,
                         "{}: written, but may not survive a crash of the machine: cannot sync its directory: {}",
                         target_.path.string(), std::strerror(code)};
        };
        const Fd directory{::open(directory_of(target_.file).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
        if (!directory && errno == EACCES) return;  // the directory may be writable but not readable
        if (!directory) throw unknown(errno);
        const int code = sync(directory.get());
        if (code != 0 && code != EINVAL && code != ENOTSUP)
            throw unknown(code);  // some file systems cannot sync directories
    }

    const Target& target_;
    fs::path path_;
    int fd_ = -1;
};

/// Writes to a device or a pipe, which have no old content to keep.
void write_special(const Target& target, std::string_view text) {
    int fd = -1;
    do {
        fd = ::open(target.file.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) throw system_failure(target.path, errno);
    try {
        write_all(fd, text, target.path);
    } catch (...) {
        ::close(fd);
        throw;
    }
    if (::close(fd) != 0 && errno != EINTR) throw system_failure(target.path, errno);
}

}  // namespace

void write_file(const fs::path& path, std::string_view text) {
    const Target target = find_target(path);
    if (target.descriptor) return write_all(*target.descriptor, text, path);
    if (target.is_special()) return write_special(target, text);
    NewFile file{target};
    file.write(text);
    file.replace_target();
}

void write_file_in_checkpoint(const fs::path& path, std::string_view text, unsigned mode) {
    struct stat status {};
    const bool exists = ::lstat(path.c_str(), &status) == 0;
    if (!exists && errno != ENOENT) throw system_failure(path, errno);
    if (exists && !S_ISREG(status.st_mode))
        throw failure("{}: is {}; remove it", path.string(), S_ISLNK(status.st_mode) ? "a link" : "not a regular file");
    // rename() follows no link, not even one that was made since then.
    const Target target{
        .path = path, .file = path, .descriptor = {}, .old = exists ? std::optional{status} : std::nullopt};
    NewFile file{target, static_cast<mode_t>(mode)};
    file.write(text);
    file.replace_target();
}

void check_writable(const fs::path& path) {
    const Target target = find_target(path);
    if (target.descriptor) {
        if (::fcntl(*target.descriptor, F_GETFL) < 0) throw system_failure(path, errno);
    } else if (!target.is_special()) {
        const NewFile file{target};
    }
}

}  // namespace tpx
