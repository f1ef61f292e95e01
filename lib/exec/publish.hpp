// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/mpi.hpp"

#include <filesystem>
#include <string>

namespace tpx {

/// A directory beside the one to be made, which takes its name in one step when all is well: under the final name there
/// is what was there before or all of the new, never a part.
class PartialDirectory {
public:
    /// Makes `out`.partial-ID. Throws an mpi::AgreedError when `out` exists and may not be replaced. Collective.
    PartialDirectory(const mpi::Comm& comm, const std::filesystem::path& out, bool replace);

    /// Unless committed, removes the directory and all in it, on rank 0; the other ranks must not be writing any more.
    ~PartialDirectory();

    PartialDirectory(const PartialDirectory&) = delete;
    PartialDirectory& operator=(const PartialDirectory&) = delete;

    const std::filesystem::path& path() const { return path_; }

    /// Waits for all ranks and gives the directory its final name; what had that name is removed afterwards. Everything
    /// in the directory must be on disk. Throws an mpi::AgreedError. Collective.
    void commit() { commit_as({}); }

    /// The same for the only file in the directory, `name`, which gets the final name itself.
    void commit_file(const std::string& name) { commit_as(name); }

private:
    void make();
    void commit_as(const std::string& file);
    void publish(const std::filesystem::path& what);

    const mpi::Comm& comm_;
    std::filesystem::path out_;
    bool replace_;
    std::filesystem::path path_;
    bool committed_ = false;
};

}  // namespace tpx
