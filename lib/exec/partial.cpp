// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/partial.hpp"

#include "lib/core/error.hpp"
#include "lib/core/host_name.hpp"
#include "lib/core/path.hpp"
#include "lib/core/unfinished.hpp"
#include "lib/exec/journal.hpp"
#include "lib/exec/remove.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <thread>

namespace tpx {
namespace {

namespace fs = std::filesystem;

// On file systems without locks, a run counts as active for this long after it last wrote to its marker or journals.
constexpr std::time_t lockless_timeout = 60;

std::string now() {
    const std::time_t seconds = std::time(nullptr);
    struct tm parts {};
    ::gmtime_r(&seconds, &parts);
    char text[64] = "";
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
    return text;
}

bool has_changed_lately(const fs::path& folder) {
    std::time_t last = 0;
    const auto look = [&](const fs::path& file) {
        struct stat own {};
        if (::stat(file.c_str(), &own) == 0) last = std::max(last, own.st_mtime);
    };
    look(folder / unfinished_marker);
    for (const std::string& name : list_directory(folder / journal_folder)) look(folder / journal_folder / name);
    return std::time(nullptr) - last < lockless_timeout;
}

enum class Locked { yes, no, unknown };

Locked try_lock(const Fd& fd, int how) {
    while (::flock(fd.get(), how | LOCK_NB) != 0) {
        if (errno == EINTR) continue;
        return errno == EWOULDBLOCK ? Locked::no : Locked::unknown;
    }
    return Locked::yes;
}

Fd open_folder(const fs::path& folder) { return open_file(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW); }

bool is_still_at(const Fd& fd, const fs::path& path) {
    struct stat opened {
    }, there{};
    return ::fstat(fd.get(), &opened) == 0 && ::lstat(path.c_str(), &there) == 0 && opened.st_ino == there.st_ino &&
           opened.st_dev == there.st_dev;
}

std::string first_line(const fs::path& marker) {
    const std::string text = read_file(marker, 16384);
    const std::string line = text.substr(0, text.find('\n'));
    return line.empty() ? "an unfinished output of tpx reshard" : line;
}

Error busy(const fs::path& folder) {
    const std::string what = path_is_file(folder / unfinished_marker) ? first_line(folder / unfinished_marker) : "";
    return failure("{}: another run is writing to it{}{}; wait for it or stop it", folder.string(),
                   what.empty() ? "" : ": ", what);
}

// Whether a run is active in `folder`. Needs only read permission, and does not disturb a run that is starting.
bool is_active(const fs::path& folder) {
    const Locked folder_lock = try_lock(open_folder(folder), LOCK_SH);
    if (folder_lock == Locked::no) return true;
    if (folder_lock == Locked::yes) return false;
    const Locked marker_lock = try_lock(open_file(folder / unfinished_marker, O_RDONLY | O_NOFOLLOW), LOCK_SH);
    return marker_lock == Locked::unknown ? has_changed_lately(folder) : marker_lock == Locked::no;
}

}  // namespace

PartialLock::PartialLock(const fs::path& folder) : marker_{folder / unfinished_marker}, folder_{open_folder(folder)} {
    struct stat own {};
    if (::fstat(folder_.get(), &own) != 0) throw system_failure(folder, errno);
    if (own.st_uid != ::geteuid()) throw failure("{}: belongs to another user; remove it", folder.string());
    // A process that only checks whether a run is active holds the lock for a moment.
    Locked locked = Locked::no;
    for (int attempt = 0; attempt < 20 && locked == Locked::no; ++attempt) {
        if (attempt > 0) std::this_thread::sleep_for(std::chrono::milliseconds{50});
        locked = try_lock(folder_, LOCK_EX);
    }
    if (locked == Locked::no || !is_still_at(folder_, folder)) throw busy(folder);
    locks_folder_ = locked == Locked::yes;
    if (locks_folder_ || !path_is_file(marker_)) return;
    if (has_changed_lately(folder) && try_lock(open_file(marker_, O_RDWR | O_NOFOLLOW), LOCK_EX) == Locked::unknown)
        throw busy(folder);
    lock_marker();
}

// NFS locks files that are open for writing, but not folders.
void PartialLock::lock_marker() {
    file_ = open_file(marker_, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK);
    if (!locks_folder_ && try_lock(file_, LOCK_EX) == Locked::no) throw busy(marker_.parent_path());
}

void PartialLock::write(const std::string& text) {
    if (!file_) lock_marker();
    write_at(file_, 0, std::as_bytes(std::span{text}), marker_);
    if (::ftruncate(file_.get(), static_cast<off_t>(text.size())) != 0) throw system_failure(marker_, errno);
    while (::fsync(file_.get()) != 0)
        if (errno != EINTR) throw system_failure(marker_, errno);
}

std::string marker_text(const std::string& source, const fs::path& out) {
    const char* job = std::getenv("SLURM_JOB_ID");
    return fmt::format("an unfinished output of tpx reshard ({} to {}, begun {} by process {} on host {}{}{})\n",
                       source, out.string(), now(), ::getpid(), host_name(), job != nullptr ? ", job " : "",
                       job != nullptr ? job : "");
}

fs::path without_slashes(const fs::path& path) {
    std::string text = path.string();
    while (text.size() > 1 && text.back() == '/') text.pop_back();
    return text;
}

fs::path parent_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path{"."}; }

fs::path with_suffix(fs::path path, const std::string& suffix) { return path += suffix; }

fs::path partial_name(const fs::path& out, const std::string& id) { return with_suffix(out, ".partial-" + id); }

PartialOutput partial_at(const fs::path& folder) {
    PartialOutput partial{folder, first_line(folder / unfinished_marker), true};
    try {
        partial.is_live = is_active(folder);
    } catch (const Error&) {  // another user's, or just removed: must not be written to in any case
    }
    return partial;
}

std::vector<PartialOutput> partials_of(const fs::path& out) {
    const std::string prefix = out.filename().string() + ".partial-";
    std::vector<PartialOutput> partials;
    for (const std::string& name : list_directory(parent_of(out))) {
        const fs::path folder = out.parent_path() / name;
        if (name.starts_with(prefix) && path_is_file(folder / unfinished_marker))
            partials.push_back(partial_at(folder));
    }
    return partials;
}

void remove_partial(const fs::path& folder) {
    PartialLock lock{folder};
    lock.close_marker();
    if (const std::string fault = remove_tree(folder); !fault.empty()) throw failure("{}", fault);
}

}  // namespace tpx
