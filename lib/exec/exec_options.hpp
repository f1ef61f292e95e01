// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/file.hpp"
#include "lib/exec/journal.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {
class Arrivals;
class FileCrcs;
class MoveDigests;
class RateLimiter;
class ReadDigests;
class Trace;
namespace mpi {
class Comm;
}

/// Per-rank resource limits, the progress callback, and what to record.
struct ExecOptions {
    std::uint64_t memory = std::uint64_t{512} << 20;  ///< bytes of buffers on each rank, at least 1 MiB
    int threads = 2;                                  ///< threads that read, copy and write on each rank
    bool takes_part = true;                           ///< false: this rank moves no tensor data

    /// Called on rank 0 with the bytes of all ranks, done and in total, at most ten times a second; `slowest` is the
    /// stage in which the threads of rank 0 spend the most time, empty if there is only one stage.
    std::function<void(std::uint64_t done, std::uint64_t total, std::string_view slowest)> progress;

    /// The signal that requests a stop, or 0 while there is none (StopSignals::signal). The work then stops at the next
    /// possible point, with an Error "stopped on request" whose Exit is exit_of() of the signal.
    const std::atomic<int>* cancelled = nullptr;

    /// If not null, execute() records in it what each thread did and when.
    Trace* trace = nullptr;

    /// If not null, execute() and digests() add to it the bytes that they read from its files.
    ReadDigests* read_digests = nullptr;

    /// If not null, execute() adds to it what it moves, but not what earlier runs wrote (Report::bytes_kept).
    MoveDigests* move_digests = nullptr;

    /// If not null, execute() adds to it the tensor data that it writes, but not what earlier runs wrote
    /// (Report::bytes_kept).
    FileCrcs* file_crcs = nullptr;

    /// If not null, limits the rates at which execute() and exchange() read and write.
    RateLimiter* rate_limiter = nullptr;

    /// If not null, tracks the bytes of a source file that arrive during the run: exchange() receives them, and
    /// execute() reads them once they have arrived. Only for one rank.
    Arrivals* arrivals = nullptr;

    /// If not null, execute() fills these files, one for each of the draft's, instead of creating files, and syncs
    /// nothing to disk. Only for one rank without a journal.
    const std::vector<Fd>* memory_files = nullptr;

    /// Where execute() records what it has written, and finds what earlier runs wrote.
    std::optional<JournalPlace> journal;
};

/// The bytes of buffers with which every rank stays within `memory` bytes, given the memory that the largest rank uses
/// now; at least 16 MiB, or `memory` if that is less. Collective; the same on all ranks.
std::uint64_t buffers_within(const mpi::Comm& comm, std::uint64_t memory);

}  // namespace tpx
