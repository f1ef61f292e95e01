// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/publish.hpp"

#include "lib/core/file.hpp"
#include "lib/core/path.hpp"
#include "lib/core/unfinished.hpp"
#include "lib/exec/remove.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

namespace tpx {
namespace {

namespace fs = std::filesystem;

// "out/" names the same directory as "out", and the partial one must lie beside it. ".." is left to the system, which
// follows links before it.
fs::path without_slashes(const fs::path& path) {
    std::string text = path.string();
    while (text.size() > 1 && text.back() == '/') text.pop_back();
    const fs::path plain{text};
    if (!plain.has_filename() || plain.filename() == "." || plain.filename() == "..")
        throw Error{Exit::usage, "{}: cannot be used as an output path", path.string()};
    return plain;
}

fs::path parent_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path{"."}; }

fs::path with_suffix(fs::path path, const std::string& suffix) { return path += suffix; }

bool is_unsupported(int code) { return code == EINVAL || code == ENOSYS || code == ENOTSUP; }

std::string host_name() {
    char name[256] = "";
    ::gethostname(name, sizeof name - 1);
    return name;
}

std::string now() {
    const std::time_t seconds = std::time(nullptr);
    struct tm parts {};
    ::gmtime_r(&seconds, &parts);
    char text[64] = "";
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
    return text;
}

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

PartialDirectory::PartialDirectory(const mpi::Comm& comm, Naming naming) : comm_{comm}, naming_{std::move(naming)} {
    mpi::all_or_none(comm_, [&] { naming_.out = without_slashes(naming_.out); });
    mpi::all_or_none(comm_, [&] {
        if (comm_.rank() == 0) make();
    });
    std::string path = path_.string();
    mpi::broadcast(comm_, path);
    path_ = path;
    mpi::broadcast(comm_, marker_);
    try {
        mpi::all_or_none(comm_, [&] {
            if (!path_exists(path_ / unfinished_marker) || read_file(path_ / unfinished_marker) != marker_)
                throw failure(
                    "{}: is not the folder that rank 0 made; all processes need the same storage and the "
                    "same working directory",
                    path_.string());
        });
    } catch (...) {
        if (comm_.rank() == 0) remove_tree(path_);
        throw;
    }
}

void PartialDirectory::make() {
    recover();
    try {
        if (entry_exists(naming_.out)) check_occupant();
    } catch (Error& error) {
        if (!notes_.empty()) error.prepend(notes_.front());
        throw;
    }
    const char* job = std::getenv("SLURM_JOB_ID");
    const std::string base = job != nullptr ? job : std::to_string(::getpid());
    for (int attempt = 0;; ++attempt) {
        id_ = attempt == 0 ? base : fmt::format("{}-{}", base, attempt);
        path_ = with_suffix(naming_.out, ".partial-" + id_);
        if (entry_exists(aside())) continue;
        if (::mkdir(path_.c_str(), 0777) == 0) break;
        if (errno != EEXIST) throw system_failure(path_, errno);
    }
    try {
        note_other_runs();
        mark();
    } catch (Error& error) {
        if (const std::string fault = discard(); !fault.empty()) error.prepend(fault);
        throw;
    }
}

fs::path PartialDirectory::aside() const { return with_suffix(naming_.out, ".old-" + id_); }

// A run that was killed between the two renames of swap_in_two_steps() has left both outputs under other names.
void PartialDirectory::recover() {
    if (entry_exists(naming_.out)) return;
    const std::string prefix = naming_.out.filename().string() + ".old-";
    for (const std::string& name : list_directory(parent_of(naming_.out))) {
        if (!name.starts_with(prefix)) continue;
        const fs::path old = with_suffix(naming_.out, ".old-" + name.substr(prefix.size()));
        const fs::path fresh = with_suffix(naming_.out, ".partial-" + name.substr(prefix.size()));
        if (!entry_exists(fresh) || entry_exists(old / unfinished_marker)) continue;
        if (naming_.calls.rename(old.c_str(), naming_.out.c_str(), 0) != 0) throw system_failure(old, errno);
        notes_.push_back(
            fmt::format("{} is in its place again: a run that was to replace it was killed; what that run "
                        "wrote is complete in {}",
                        naming_.out.string(), fresh.string()));
        return;
    }
}

void PartialDirectory::note_other_runs() {
    const std::string base = naming_.out.filename().string();
    for (const std::string& name : list_directory(parent_of(naming_.out))) {
        const bool partial = name.starts_with(base + ".partial-");
        if ((!partial && !name.starts_with(base + ".old-")) || name == path_.filename()) continue;
        const fs::path other = naming_.out.parent_path() / name;
        if (const auto unfinished = entry_exists(other / unfinished_marker) ? find_unfinished(other) : std::nullopt)
            notes_.push_back(
                fmt::format("{} is {}; remove it unless that run is still going", other.string(), unfinished->what));
        else
            notes_.push_back(
                fmt::format("{} was left by an earlier run: an output that did not get its name, or one "
                            "that was replaced",
                            other.string()));
    }
}

void PartialDirectory::mark() {
    marker_ = fmt::format("an unfinished output of tpx reshard ({} to {}, begun {} by process {} on host {})\n",
                          naming_.source, naming_.out.string(), now(), ::getpid(), host_name());
    const fs::path marker = path_ / unfinished_marker;
    const Fd fd = open_file(marker, O_WRONLY | O_CREAT | O_EXCL);
    write_at(fd, 0, std::as_bytes(std::span{marker_}), marker);
    if (::fsync(fd.get()) != 0) throw system_failure(marker, errno);
    if (naming_.calls.sync(path_.c_str()) != 0) throw system_failure(path_, errno);
}

void PartialDirectory::check_occupant() const {
    const auto check = [&] {
        struct stat own {
        }, parent{};
        if (::lstat(naming_.out.c_str(), &own) != 0) throw system_failure(naming_.out, errno);
        if (S_ISLNK(own.st_mode)) throw failure("it is a symbolic link");
        if (!S_ISDIR(own.st_mode) && !S_ISREG(own.st_mode)) throw failure("it is neither a file nor a folder");
        // Only folders: files of overlayfs have other devices than the folders that they are in.
        if (S_ISDIR(own.st_mode) && ::stat(parent_of(naming_.out).c_str(), &parent) == 0 && parent.st_dev != own.st_dev)
            throw failure("it is a mount point");
        naming_.check_replaceable(naming_.out);
    };
    try {
        check();
    } catch (const Error& reason) {
        throw failure("{}: exists, and --force cannot replace it: {}", naming_.out.string(), reason.what());
    }
    if (!naming_.force) throw failure("{}: exists; pass --force to replace it", naming_.out.string());
}

PartialDirectory::~PartialDirectory() {
    if (comm_.rank() == 0) discard();
}

std::string PartialDirectory::discard() { return std::exchange(keep_, true) ? std::string{} : remove_tree(path_); }

Published PartialDirectory::commit_as(const std::string& file) {
    mpi::barrier(comm_);
    const fs::path fresh = file.empty() ? path_ : path_ / file;
    Published result;
    fs::path old;
    mpi::all_or_none(comm_, [&] {
        if (comm_.rank() != 0) return;
        unmark();
        keep_ = true;
        try {
            if (entry_exists(naming_.out)) check_occupant();
            old = swap(fresh);
        } catch (const Error& error) {
            throw Error{error.exit(), "{}; the new output is complete, but is called {}", error.what(), fresh.string()};
        }
    });
    keep_ = true;
    if (comm_.rank() == 0) {
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
    mpi::broadcast(comm_, result.fault);
    return result;
}

void PartialDirectory::unmark() const {
    const fs::path marker = path_ / unfinished_marker;
    if (::unlink(marker.c_str()) != 0) throw system_failure(marker, errno);
    if (naming_.calls.sync(path_.c_str()) != 0) throw system_failure(path_, errno);
}

/// Gives `fresh` its name; returns where that which had the name is now, nothing if there was none.
fs::path PartialDirectory::swap(const fs::path& fresh) {
    if (!entry_exists(naming_.out)) {
        take_free_name(fresh);
        return {};
    }
    if (!naming_.force) throw failure("{}: exists; pass --force to replace it", naming_.out.string());
    if (naming_.calls.rename(fresh.c_str(), naming_.out.c_str(), RENAME_EXCHANGE) != 0) {
        if (!is_unsupported(errno)) throw system_failure(naming_.out, errno);
        return swap_in_two_steps(fresh);
    }
    // The old one must not be called partial; where it cannot get its own name, it is complete nevertheless.
    return naming_.calls.rename(fresh.c_str(), aside().c_str(), 0) == 0 ? aside() : fresh;
}

fs::path PartialDirectory::swap_in_two_steps(const fs::path& fresh) {
    const fs::path old = aside();
    if (naming_.calls.rename(naming_.out.c_str(), old.c_str(), 0) != 0) throw system_failure(naming_.out, errno);
    if (naming_.calls.rename(fresh.c_str(), naming_.out.c_str(), 0) == 0) return old;
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
    // A plain rename replaces files, but no folder that has anything in it.
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

void PartialDirectory::remove_old(const fs::path& old, Published& result) const {
    bool is_folder = false;
    try {
        // Somebody may have added to it since it was looked at.
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
