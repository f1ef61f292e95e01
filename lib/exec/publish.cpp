// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/publish.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace tpx {
namespace {

namespace fs = std::filesystem;

Error system_failure(const fs::path& path) { return failure("{}: {}", path.string(), std::strerror(errno)); }

Error exists_already(const fs::path& path) { return failure("{}: exists already; --force replaces it", path.string()); }

// "out/" and "a/../out" name the same directory, and the partial one must lie beside it.
fs::path plain(const fs::path& path) {
    fs::path normal = path.lexically_normal();
    if (!normal.has_filename()) normal = normal.parent_path();
    if (!normal.has_filename() || normal.filename() == "." || normal.filename() == "..")
        throw Error{Exit::usage, "{}: is no name for a new directory", path.string()};
    return normal;
}

fs::path parent_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path{"."}; }

bool is_there(const fs::path& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0;
}

// Returns false when the file system does not know the flag.
bool rename_with(const fs::path& from, const fs::path& to, unsigned flag) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flag) == 0) return true;
    if (errno == EEXIST) throw exists_already(to);
    if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP) return false;
    throw system_failure(to);
}

void rename_plainly(const fs::path& from, const fs::path& to) {
    if (::rename(from.c_str(), to.c_str()) != 0) throw system_failure(to);
}

void remove_quietly(const fs::path& path) {
    std::error_code ignored;
    fs::remove_all(path, ignored);
}

}  // namespace

PartialDirectory::PartialDirectory(const mpi::Comm& comm, const fs::path& out, bool replace)
    : comm_{comm}, replace_{replace} {
    mpi::all_or_none(comm_, [&] { out_ = plain(out); });
    mpi::all_or_none(comm_, [&] {
        if (comm_.rank() == 0) make();
    });
    std::string path = path_.string();
    mpi::broadcast(comm_, path);
    path_ = path;
}

void PartialDirectory::make() {
    if (is_there(out_) && !replace_) throw exists_already(out_);
    const char* job = std::getenv("SLURM_JOB_ID");
    const std::string id = job != nullptr ? job : std::to_string(::getpid());
    for (int attempt = 0;; ++attempt) {
        path_ = out_;
        path_ += fmt::format(".partial-{}{}", id, attempt == 0 ? "" : fmt::format("-{}", attempt));
        if (::mkdir(path_.c_str(), 0777) == 0) return;
        if (errno != EEXIST) throw system_failure(path_);
    }
}

PartialDirectory::~PartialDirectory() {
    if (!committed_ && comm_.rank() == 0) remove_quietly(path_);
}

void PartialDirectory::commit_as(const std::string& file) {
    mpi::barrier(comm_);
    mpi::all_or_none(comm_, [&] {
        if (comm_.rank() != 0) return;
        publish(file.empty() ? path_ : path_ / file);
        if (!file.empty()) remove_quietly(path_);
    });
    committed_ = true;
}

void PartialDirectory::publish(const fs::path& what) {
    if (replace_ && is_there(out_)) {
        if (rename_with(what, out_, RENAME_EXCHANGE)) {
            remove_quietly(what);
        } else {
            fs::path old = path_;
            old += ".old";
            rename_plainly(out_, old);
            rename_plainly(what, out_);
            remove_quietly(old);
        }
    } else if (!rename_with(what, out_, RENAME_NOREPLACE)) {
        if (is_there(out_)) throw exists_already(out_);
        rename_plainly(what, out_);
    }
    const fs::path parent = parent_of(out_);
    const Fd fd = open_file(parent, O_RDONLY | O_DIRECTORY);
    if (::fsync(fd.get()) != 0) throw system_failure(parent);
}

}  // namespace tpx
