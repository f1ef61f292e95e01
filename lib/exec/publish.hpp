// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/error.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/partial.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tpx {

/// The exit status of a run whose output is complete and in place although something failed afterwards.
inline constexpr Exit exit_after_commit{4};

/// The system calls that give an output its name; tests replace them with calls that fail.
struct NamingCalls {
    /// Like renameat2(2): 0, or -1 and errno.
    std::function<int(const char* from, const char* to, unsigned flags)> rename;
    /// Syncs the entries of a directory to disk: 0, or -1 and errno.
    std::function<int(const char* directory)> sync;

    static NamingCalls system();
};

/// The name of an output, and what may be done to give it that name.
struct Naming {
    std::filesystem::path out;
    /// Whether an existing file or folder `out` may be replaced.
    bool force = false;
    /// Throws Error with the reason if `occupant` must not be replaced: the file or folder at `out`, or where it was
    /// moved. Called on rank 0 only.
    std::function<void(const std::filesystem::path& occupant)> check_replaceable;
    /// The source of the output, for the marker in the unfinished folder.
    std::string source;
    /// A digest of the source and the output, by which the same request finds the unfinished folder of an earlier run.
    std::uint64_t request = 0;
    /// Whether unfinished folders of earlier runs, of this or other requests, are removed instead of continued.
    bool restart = false;
    /// Whether a folder without a marker contains the complete output. Called on rank 0 only.
    std::function<bool(const std::filesystem::path& folder)> is_complete;
    NamingCalls calls = NamingCalls::system();
};

/// The result of giving an output its name.
struct PublishResult {
    /// What failed after the complete output was in place; empty if nothing failed. The same on all ranks.
    std::string fault;
    /// Whether the output survives a crash of the machine; valid on rank 0 only.
    bool durable = true;
};

/// A folder OUT.partial-ID beside the output OUT, which gets the name OUT in one step when it is complete: OUT is
/// always either what it was before or the complete new output, never a part of it. Until then, a marker in the folder
/// says that it is unfinished, and a PartialLock protects it. ID is the digest of the request.
class PartialDirectory {
public:
    /// Throws Error if the constructor would because OUT cannot be an output's name, or exists and may not be replaced.
    /// Creates nothing.
    static void check_name(Naming naming);

    /// Creates the folder and the marker, or takes over those of an earlier run of the same request. If a run was
    /// killed while replacing an earlier output, puts that output back in its place, or moves it to OUT.replaced-ID if
    /// the new one is in place. Throws an mpi::AgreedError if OUT exists and may not be replaced, if another run is
    /// writing to OUT, if another request left an unfinished folder for OUT, or if not all ranks see the folder.
    /// Collective.
    PartialDirectory(const mpi::Comm& comm, Naming naming);

    /// Removes the folder and its contents, on rank 0, unless it was committed, is to be kept, or contains recorded
    /// work of an earlier run. The other ranks must no longer be writing.
    ~PartialDirectory();

    PartialDirectory(const PartialDirectory&) = delete;
    PartialDirectory& operator=(const PartialDirectory&) = delete;

    const std::filesystem::path& path() const { return path_; }

    /// The attempt number in the names of this run's journals; 0 if the folder is new. The same on all ranks.
    int attempt() const { return attempt_; }

    /// Notes for the user, on rank 0: folders of other runs, and outputs that were put back.
    const std::vector<std::string>& notes() const { return notes_; }

    /// Waits for all ranks and gives the folder its final name. Precondition: everything in it is on disk. Keeps the
    /// old output as OUT.old-ID until the new name is on disk, and then removes it. If OUT could not be replaced, keeps
    /// the new output and throws an mpi::AgreedError that says where it is. Collective.
    PublishResult commit() { return commit_as({}); }

    /// The same for an output that is a file: `name`, the only file in the folder besides the marker, gets the final
    /// name.
    PublishResult commit_file(const std::string& name) { return commit_as(name); }

    /// Removes the folder unless it is to be kept, for example because commit() could not rename it. Call it on rank 0;
    /// returns why it failed, or an empty text.
    std::string discard();

    /// The same even if the folder is to be kept; for folders in which earlier runs wrote wrong bytes.
    std::string remove();

    /// Leaves the folder for a later run of the same request.
    void keep() { keep_ = true; }

private:
    void make();
    void create();
    void recover();
    void handle_other_runs();
    void note_old_outputs();
    void take_over();
    void move_aside();
    static void check_occupant(const Naming& naming);
    PublishResult commit_as(const std::string& file);
    void end_commit(const std::filesystem::path& file, const std::filesystem::path& old, PublishResult& result);
    void unmark();
    std::filesystem::path swap(const std::filesystem::path& fresh);
    void swap_in_two_steps(const std::filesystem::path& fresh, const std::filesystem::path& old);
    void take_free_name(const std::filesystem::path& fresh) const;
    void remove_old(const std::filesystem::path& old, PublishResult& result) const;
    std::filesystem::path free_name(const char* suffix) const;

    const mpi::Comm& comm_;
    Naming naming_;
    std::string id_;
    std::string marker_;
    std::optional<PartialLock> lock_;
    int attempt_ = 0;
    std::filesystem::path path_;
    std::vector<std::string> notes_;
    bool keep_ = false;
};

}  // namespace tpx
