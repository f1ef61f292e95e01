// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/mpi.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

namespace tpx::test {

/// A directory that all ranks of this machine share, removed when rank 0 leaves it.
class Scratch {
public:
    explicit Scratch(const mpi::Comm& comm) : comm_{comm} {
        std::string name = (std::filesystem::temp_directory_path() / "tpx-test-XXXXXX").string();
        if (comm.rank() == 0 && ::mkdtemp(name.data()) == nullptr) throw failure("{}: cannot be made", name);
        mpi::broadcast(comm, name);
        path_ = name;
    }
    ~Scratch() {
        mpi::barrier(comm_);
        std::error_code ignored;
        if (comm_.rank() == 0) std::filesystem::remove_all(path_, ignored);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

    /// Writes a file on rank 0; all ranks return once it exists.
    void write(const std::filesystem::path& name, const std::string& content) const {
        if (comm_.rank() == 0) {
            std::filesystem::create_directories((path_ / name).parent_path());
            std::ofstream{path_ / name, std::ios::binary} << content;
        }
        mpi::barrier(comm_);
    }

private:
    const mpi::Comm& comm_;
    std::filesystem::path path_;
};

/// The message of the AgreedError that `body` throws; empty if it throws none.
inline std::string message_of(const std::function<void()>& body) {
    try {
        body();
    } catch (const mpi::AgreedError& error) {
        return error.what();
    }
    return {};
}

}  // namespace tpx::test
