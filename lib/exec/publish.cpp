// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/publish.hpp"

#include "lib/core/file.hpp"
#include "lib/core/path.hpp"
#include "lib/core/unfinished.hpp"
#include "lib/exec/journal.hpp"
#include "lib/exec/remove.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tpx {
namespace {

namespace fs = std::filesystem;

bool is_unsupported(int code) { return code == EINVAL || code == ENOSYS || code == ENOTSUP; }

}  // namespace

NamingCalls NamingCalls::system() {
    const auto sync = [](const char* directory) {
        const Fd fd{::open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
        return fd ? ::fsync(fd.get()) : -1;
    };
    const auto rename = [](const char* from, const char* to, unsigned flags) {
        return flags == 0 ? ::rename(from, to) : ::renameat2(AT_FDCWD, from, AT_FDCWD, to, flags);
    };
    return {rename, sync};
}

void PartialDirectory::check_occupant(const Naming& naming) {
    if (!entry_exists(naming.out)) return;
    const auto check = [&] {
        struct stat own {
        }, parent{};
        if (::lstat(naming.out.c_str(), &own) != 0) throw system_failure(naming.out, errno);
        if (S_ISLNK(own.st_mode)) throw failure("it is a symbolic link");
        if (!S_ISDIR(own.st_mode) && !S_ISREG(own.st_mode)) throw failure("it is neither a file nor a folder");
        // Only for folders: on overlayfs, files have other device numbers than the folders that contain them.
        if (S_ISDIR(own.st_mode) && ::stat(parent_of(naming.out).c_str(), &parent) == 0 && parent.st_dev != own.st_dev)
            throw failure("it is a mount point");
        naming.check_replaceable(naming.out);
    };
    try {
        check();
    } catch (const Error& reason) {
        throw failure("{}: exists, and --force cannot replace it: {}", naming.out.string(), reason.what());
    }
    if (!naming.force) throw failure("{}: exists; pass --force to replace it", naming.out.string());
}

// An unused name beside the output, for an output that is replaced.
fs::path PartialDirectory::free_name(const char* suffix) const {
    fs::path path = with_suffix(naming_.out, suffix + id_);
    for (int k = 1; entry_exists(path); ++k) path = with_suffix(naming_.out, fmt::format("{}{}-{}", suffix, id_, k));
    return path;
}

PartialDirectory::~PartialDirectory() {
    if (comm_.rank() == 0) discard();
}

std::string PartialDirectory::discard() {
    if (std::exchange(keep_, true)) return {};
    if (lock_) lock_->close_marker();
    return remove_tree(path_);
}

std::string PartialDirectory::remove() {
    keep_ = false;
    return discard();
}

PublishResult PartialDirectory::commit_as(const std::string& file) {
    mpi::barrier(comm_);
    const fs::path fresh = file.empty() ? path_ : path_ / file;
    PublishResult result;
    fs::path old;
    mpi::all_or_none(comm_, [&] {
        if (comm_.rank() != 0) return;
        unmark();
        keep_ = true;
        try {
            check_occupant(naming_);
            old = swap(fresh);
        } catch (const Error& error) {
            throw Error{error.exit(), "{}; the new output is complete, but is called {}", error.what(), fresh.string()};
        }
    });
    keep_ = true;
    if (comm_.rank() == 0) mpi::run_watched([&] { end_commit(file, old, result); });
    mpi::broadcast(comm_, result.fault);
    return result;
}

void PartialDirectory::end_commit(const fs::path& file, const fs::path& old, PublishResult& result) {
    const fs::path parent = parent_of(naming_.out);
    if (naming_.calls.sync(parent.c_str()) != 0) {
        result.durable = false;
        result.fault = fmt::format("{}: {}; {} is complete and in place, but may be lost if the machine crashes{}",
                                   parent.string(), std::strerror(errno), naming_.out.string(),
                                   old.empty() ? "" : fmt::format("; the one before is kept: {}", old.string()));
    } else if (!old.empty()) {
        remove_old(old, result);
    }
    if (!file.empty() && ::rmdir(path_.c_str()) != 0)
        result.fault += fmt::format("{0}{1}: {2}; remove {1}", result.fault.empty() ? "" : "; ", path_.string(),
                                    std::strerror(errno));
}

void PartialDirectory::unmark() {
    // The marker stays while there is anything to explain.
    if (entry_exists(path_ / journal_folder))
        if (const std::string fault = remove_tree(path_ / journal_folder); !fault.empty()) throw failure("{}", fault);
    if (lock_) lock_->close_marker();
    const fs::path marker = path_ / unfinished_marker;
    if (::unlink(marker.c_str()) != 0) throw system_failure(marker, errno);
    if (naming_.calls.sync(path_.c_str()) != 0) throw system_failure(path_, errno);
}

/// Gives `fresh` the final name; returns where the old output is now, or an empty path if there was none.
fs::path PartialDirectory::swap(const fs::path& fresh) {
    if (!entry_exists(naming_.out)) {
        take_free_name(fresh);
        return {};
    }
    if (!naming_.force) throw failure("{}: exists; pass --force to replace it", naming_.out.string());
    const fs::path old = free_name(".old-");  // before anything has changed, since finding a free name can fail
    if (naming_.calls.rename(fresh.c_str(), naming_.out.c_str(), RENAME_EXCHANGE) != 0) {
        if (!is_unsupported(errno)) throw system_failure(naming_.out, errno);
        swap_in_two_steps(fresh, old);
        return old;
    }
    // The old output must not be called partial. If it cannot be renamed, it is still complete.
    return naming_.calls.rename(fresh.c_str(), old.c_str(), 0) == 0 ? old : fresh;
}

/// The same if the file system cannot exchange two names: for a moment, neither output has the final name.
void PartialDirectory::swap_in_two_steps(const fs::path& fresh, const fs::path& old) {
    if (naming_.calls.rename(naming_.out.c_str(), old.c_str(), 0) != 0) throw system_failure(naming_.out, errno);
    if (naming_.calls.rename(fresh.c_str(), naming_.out.c_str(), 0) == 0) return;
    const int cause = errno;
    if (naming_.calls.rename(old.c_str(), naming_.out.c_str(), 0) != 0)
        throw failure("{}: {}; what had that name is now {}: {}", naming_.out.string(), std::strerror(cause),
                      old.string(), std::strerror(errno));
    throw system_failure(naming_.out, cause);
}

void PartialDirectory::take_free_name(const fs::path& fresh) const {
    const auto appeared = [&] { return failure("{}: appeared during the run", naming_.out.string()); };
    if (naming_.calls.rename(fresh.c_str(), naming_.out.c_str(), RENAME_NOREPLACE) == 0) return;
    if (errno == EEXIST) throw appeared();
    if (!is_unsupported(errno)) throw system_failure(naming_.out, errno);
    // A plain rename replaces files, but not folders that contain anything.
    if (fresh != path_) {
        if (::link(fresh.c_str(), naming_.out.c_str()) == 0) {
            ::unlink(fresh.c_str());
            return;
        }
        if (errno == EEXIST) throw appeared();
    }
    if (entry_exists(naming_.out)) throw appeared();
    if (naming_.calls.rename(fresh.c_str(), naming_.out.c_str(), 0) != 0) throw system_failure(naming_.out, errno);
}

void PartialDirectory::remove_old(const fs::path& old, PublishResult& result) const {
    bool is_folder = false;
    try {
        // Somebody may have added files since it was checked.
        naming_.check_replaceable(old);
        is_folder = path_is_directory(old);
    } catch (const Error& reason) {
        result.fault = fmt::format("{} is complete and in place; what it replaces is kept as {}: {}",
                                   naming_.out.string(), old.string(), reason.what());
        return;
    }
    if (is_folder) {
        try {
            const Fd fd = open_file(old / unfinished_marker, O_WRONLY | O_CREAT | O_EXCL);
            const std::string text = "a replaced checkpoint that tpx reshard was removing\n";
            write_at(fd, 0, std::as_bytes(std::span{text}), old);
        } catch (const Error&) {  // where nothing can be written, nothing can be removed: that is reported below
        }
    }
    if (const std::string fault = remove_tree(old); !fault.empty())
        result.fault =
            fmt::format("{} is complete and in place, but what it replaces could not be removed: {}; remove {}",
                        naming_.out.string(), fault, old.string());
}

}  // namespace tpx
