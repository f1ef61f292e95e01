// SPDX-License-Identifier: Apache-2.0
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"
#include "lib/core/unfinished.hpp"
#include "lib/exec/journal.hpp"
#include "lib/exec/publish.hpp"
#include "lib/exec/remove.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

// The first half of PartialDirectory, which creates the folder or takes it over. The second half, which gives it its
// name, is in publish.cpp.
namespace tpx {
namespace {

namespace fs = std::filesystem;

// The partial folder must be beside the output. Other ".." in the path are left to the system, which follows links
// first.
fs::path output_name(const fs::path& path) {
    const fs::path plain = without_slashes(path);
    if (!plain.has_filename() || plain.filename() == "." || plain.filename() == "..")
        throw Error{Exit::usage, "{}: cannot be used as an output path", path.string()};
    return plain;
}

}  // namespace

void PartialDirectory::check_name(Naming naming) {
    naming.out = output_name(naming.out);
    check_occupant(naming);
}

PartialDirectory::PartialDirectory(const mpi::Comm& comm, Naming naming) : comm_{comm}, naming_{std::move(naming)} {
    mpi::all_or_none(comm_, [&] { naming_.out = output_name(naming_.out); });
    mpi::all_or_none(comm_, [&] {
        if (comm_.rank() == 0) make();
    });
    std::string path = path_.string();
    mpi::broadcast(comm_, path);
    path_ = path;
    mpi::broadcast(comm_, marker_);
    std::string attempt = std::to_string(attempt_);
    mpi::broadcast(comm_, attempt);
    attempt_ = std::stoi(attempt);
    try {
        mpi::all_or_none(comm_, [&] {
            if (!path_exists(path_ / unfinished_marker) || read_file(path_ / unfinished_marker) != marker_)
                throw failure(
                    "{}: is not the folder that rank 0 created; start all ranks in the same working directory on "
                    "shared storage",
                    path_.string());
        });
    } catch (...) {
        if (comm_.rank() == 0 && attempt_ == 0) remove_tree(path_);
        throw;
    }
}

void PartialDirectory::make() {
    recover();
    try {
        check_occupant(naming_);
    } catch (Error& error) {
        if (!notes_.empty()) error.prepend(notes_.front());
        throw;
    }
    id_ = fmt::format("{:016x}", naming_.request);
    path_ = partial_name(naming_.out, id_);
    handle_other_runs();
    note_old_outputs();
    marker_ = marker_text(naming_.source, naming_.out);
    create();
}

void PartialDirectory::create() {
    if (::mkdir(path_.c_str(), 0777) != 0) {
        if (errno == EEXIST) return take_over();
        const bool is_of_parent = errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == EROFS;
        throw system_failure(is_of_parent ? parent_of(naming_.out) : path_, errno);
    }
    keep_ = true;  // until this run has the lock: another run could have taken over the folder
    lock_.emplace(path_);
    keep_ = false;
    try {
        lock_->write(marker_);
        if (naming_.calls.sync(path_.c_str()) != 0) throw system_failure(path_, errno);
    } catch (Error& error) {
        if (const std::string fault = discard(); !fault.empty()) error.prepend(fault);
        throw;
    }
}

// Continues in the folder of an earlier run of this request. Without a marker, the folder is empty, or the run was
// killed between removing the marker and renaming, or between two renames, so that the folder contains the replaced
// output.
void PartialDirectory::take_over() {
    keep_ = true;
    lock_.emplace(path_);
    if (!entry_exists(path_ / unfinished_marker) && !list_directory(path_).empty() &&
        !(naming_.is_complete && naming_.is_complete(path_))) {
        move_aside();
        return create();
    }
    lock_->write(marker_);
    const auto journals = read_journals(path_);
    keep_ = journals && journals->header.request == naming_.request && !journals->entries.empty();
    if (keep_) notes_.push_back(fmt::format("continuing the earlier run in {}", path_.string()));
    attempt_ = next_attempt(path_);
}

void PartialDirectory::move_aside() {
    if (!naming_.force)
        throw failure(
            "{}: exists, but is not an unfinished output of tpx reshard; move or remove it, or pass --force to move it "
            "aside",
            path_.string());
    // Not ".old-": recover() would take the folder for an output that an interrupted run has moved.
    const fs::path other = free_name(".replaced-");
    if (naming_.calls.rename(path_.c_str(), other.c_str(), 0) != 0) throw system_failure(path_, errno);
    notes_.push_back(fmt::format(
        "an interrupted run left the output that it replaced in {}; moved to {}; remove {} if you do not need it",
        path_.string(), other.string(), other.string()));
}

// Restores the old output if a run was killed between the two renames of swap_in_two_steps(), which leaves both outputs
// under other names.
void PartialDirectory::recover() {
    if (entry_exists(naming_.out)) return;
    const std::string prefix = naming_.out.filename().string() + ".old-";
    for (const std::string& name : list_directory(parent_of(naming_.out))) {
        if (!name.starts_with(prefix)) continue;
        const fs::path old = with_suffix(naming_.out, ".old-" + name.substr(prefix.size()));
        const std::string id = name.substr(prefix.size());
        const fs::path fresh = partial_name(naming_.out, id.substr(0, id.find('-')));
        if (!entry_exists(fresh) || entry_exists(fresh / unfinished_marker) || entry_exists(old / unfinished_marker))
            continue;
        if (naming_.calls.rename(old.c_str(), naming_.out.c_str(), 0) != 0) throw system_failure(old, errno);
        notes_.push_back(
            fmt::format("restored {}: a run that was replacing it was killed; that run's complete output is in {}",
                        naming_.out.string(), fresh.string()));
        return;
    }
}

void PartialDirectory::handle_other_runs() {
    for (const PartialOutput& other : partials_of(naming_.out)) {
        if (other.is_live)
            throw failure("{}: another run is writing to {} ({}); wait for it or stop it", naming_.out.string(),
                          other.path.string(), other.what);
        if (naming_.restart) {
            remove_partial(other.path);
            notes_.push_back(fmt::format("removed {}, {}", other.path.string(), other.what));
        } else if (other.path != path_) {
            throw failure(
                "{}: an earlier run with other options or another source left {} ({}); repeat its command to continue "
                "it, or pass --restart to remove it and start over",
                naming_.out.string(), other.path.string(), other.what);
        }
    }
}

void PartialDirectory::note_old_outputs() {
    const std::string base = naming_.out.filename().string();
    for (const std::string& name : list_directory(parent_of(naming_.out))) {
        const fs::path other = naming_.out.parent_path() / name;
        const bool is_old = name.starts_with(base + ".old-") || name.starts_with(base + ".replaced-");
        if (!is_old && (!name.starts_with(base + ".partial-") || other == path_)) continue;
        if (const auto unfinished = entry_exists(other / unfinished_marker) ? find_unfinished(other) : std::nullopt)
            notes_.push_back(fmt::format("{} is {}; remove it", other.string(), unfinished->what));
        else
            notes_.push_back(
                fmt::format("{} was left by an earlier run: an output that did not get its final name, or one "
                            "that was replaced; remove it if you do not need it",
                            other.string()));
    }
}

}  // namespace tpx
