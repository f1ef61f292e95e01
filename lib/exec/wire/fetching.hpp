// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/mpi.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <mutex>
#include <span>

namespace tpx {

/// The path at which a rank that has file number `file` reads it.
using PathOfFile = std::function<std::filesystem::path(std::size_t file)>;

/// Answers what rank 0 fetches from this rank until its desk closes. An error here ends the job.
void serve_reads(const mpi::Comm& comm, const PathOfFile& path);

/// Where threads of rank 0 ask other ranks for parts of files; the thread that runs it is the only one that calls MPI.
class FetchDesk {
public:
    FetchDesk(const mpi::Comm& comm, PathOfFile path) : comm_{comm}, path_{std::move(path)} {}

    /// Fills `into` with what file number `file` contains at `offset` on rank `server`. For any thread but the desk's.
    void fetch(int server, std::size_t file, std::uint64_t offset, std::span<std::byte> into);

    /// Runs `body` on another thread and answers its fetches; then closes, and fails on all ranks as an
    /// mpi::AgreedError if `body` failed. The other ranks are in serve_reads().
    void run(const std::function<void()>& body);

private:
    struct Wish {
        int server;
        std::uint64_t file;
        std::uint64_t offset;
        std::span<std::byte> into;
        bool done = false;
        std::exception_ptr error = {};
    };

    void answer(Wish& wish) const;
    void answer_until(const bool& ended);

    const mpi::Comm& comm_;
    PathOfFile path_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Wish*> wishes_;
};

}  // namespace tpx
