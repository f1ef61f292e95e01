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

/// How a run ends whose output is complete and in place, when something failed after that.
inline constexpr Exit exit_after_commit{4};

/// The system calls that an output gets its name by; tests give others, which fail.
struct NamingCalls {
    /// As renameat2(2): 0, or -1 and errno.
    std::function<int(const char* from, const char* to, unsigned flags)> rename;
    /// Brings the entries of a directory to disk: 0, or -1 and errno.
    std::function<int(const char* directory)> sync;

    static NamingCalls system();
};

/// What an output is called, and what may be done to get it that name.
struct Naming {
    std::filesystem::path out;
    /// Whether something that has the name may be replaced.
    bool force = false;
    /// Throws Error with the reason when what is at a path, `out` or where that was moved, must not be replaced. Called
    /// on rank 0 only.
    std::function<void(const std::filesystem::path& occupant)> check_replaceable;
    /// Where the output comes from, for the marker in the unfinished folder.
    std::string source;
    /// A digest of the source and of the output: the same request finds the unfinished folder of an earlier run by it.
    std::uint64_t request = 0;
    /// Whether unfinished folders of earlier runs, this request's or others', are removed instead of continued.
    bool restart = false;
    /// Whether a folder without a marker contains all of the output. Called on rank 0 only.
    std::function<bool(const std::filesystem::path& folder)> is_complete;
    NamingCalls calls = NamingCalls::system();
};

/// How an output got its name.
struct Published {
    /// What failed after the output, complete, was in place; empty when nothing did. The same on all ranks.
    std::string fault;
    /// Whether the output outlives a crash of the machine; only rank 0 knows.
    bool durable = true;
};

/// A folder OUT.partial-ID beside the output to be made, which takes its name in one step when all is well: under the
/// final name there is what was there before or all of the new, never a part. Until then a marker in it says that it is
/// unfinished, and is locked. ID is the digest of the request.
class PartialDirectory {
public:
    /// Makes the folder and the marker, or takes over those of an earlier run of the same request. Puts an earlier
    /// output back in its place where a run was killed while it replaced it, or moves it to OUT.replaced-ID where the
    /// new one has its place. Throws an mpi::AgreedError when OUT exists
    /// and may not be replaced, when another run is writing to OUT, when another request left an unfinished folder for
    /// OUT, and when not all ranks see the folder. Collective.
    PartialDirectory(const mpi::Comm& comm, Naming naming);

    /// Unless committed or kept, or taken over from an earlier run, removes the folder and all in it, on rank 0; the
    /// other ranks must not be writing any more.
    ~PartialDirectory();

    PartialDirectory(const PartialDirectory&) = delete;
    PartialDirectory& operator=(const PartialDirectory&) = delete;

    const std::filesystem::path& path() const { return path_; }

    /// The number to name this run's journals by; 0 if the folder is new. The same on all ranks.
    int attempt() const { return attempt_; }

    /// What a person should know: folders of other runs, what was put back. On rank 0.
    const std::vector<std::string>& notes() const { return notes_; }

    /// Waits for all ranks and gives the folder its final name. Everything in it must be on disk. What had that name is
    /// kept as OUT.old-ID until the new name is on disk, and then removed. Throws an mpi::AgreedError when OUT is what
    /// it was before; the new output is kept then, and the error says where. Collective.
    Published commit() { return commit_as({}); }

    /// The same for the only file in the folder beside the marker, `name`, which gets the final name itself.
    Published commit_file(const std::string& name) { return commit_as(name); }

    /// Removes the folder unless it holds what commit() could not name; to be called on rank 0, where it returns why
    /// that failed.
    std::string discard();

    /// The same, also if the folder is to be kept: what earlier runs have written in it is wrong.
    std::string remove();

    /// Leaves the folder for a later run of the same request.
    void keep() { keep_ = true; }

private:
    void make();
    void create();
    void recover();
    void settle_other_runs();
    void note_old_outputs();
    void take_over();
    void move_aside();
    void check_occupant() const;
    Published commit_as(const std::string& file);
    void end_commit(const std::filesystem::path& file, const std::filesystem::path& old, Published& result);
    void unmark();
    std::filesystem::path swap(const std::filesystem::path& fresh);
    void swap_in_two_steps(const std::filesystem::path& fresh, const std::filesystem::path& old);
    void take_free_name(const std::filesystem::path& fresh) const;
    void remove_old(const std::filesystem::path& old, Published& result) const;
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
