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
class Pace;
class ReadDigests;
class Trace;
namespace mpi {
class Comm;
}

/// How much a rank may use, and who is told about it.
struct ExecOptions {
    std::uint64_t memory = std::uint64_t{512} << 20;  ///< bytes of buffers on each rank, at least 1 MiB
    int threads = 2;                                  ///< that read, copy and write on each rank
    bool takes_part = true;                           ///< false: this rank moves no tensor data

    /// Called on rank 0 with the bytes of all ranks, done and in total, at most ten times a second; `slowest` is the
    /// stage that takes the threads of rank 0 longest, empty where there is only one.
    std::function<void(std::uint64_t done, std::uint64_t total, std::string_view slowest)> progress;

    /// The signal that asks for an end, 0 while there is none (StopSignals::signal). The work then stops where it may,
    /// with an Error "stopped on request" whose Exit is exit_of the signal.
    const std::atomic<int>* cancelled = nullptr;

    /// Where execute() leaves what each thread did when; nothing is recorded without it.
    Trace* trace = nullptr;

    /// If not null, execute() and digests() add to it the bytes that they read from its files.
    ReadDigests* read_digests = nullptr;

    /// If not null, execute() adds to it what it moves, but not what earlier runs have written (Report::bytes_kept).
    MoveDigests* move_digests = nullptr;

    /// If not null, execute() adds to it the tensor data that it writes, but not what earlier runs have written
    /// (Report::bytes_kept).
    FileCrcs* file_crcs = nullptr;

    /// If not null, limits the rates at which execute() and exchange() read and write.
    Pace* pace = nullptr;

    /// If not null, bytes of a source file that arrive during execute(), which reads them when they are there, and of
    /// exchange(), which receives them. Only for one rank.
    Arrivals* arrivals = nullptr;

    /// If not null, execute() fills these files, one for each of the draft's, in place of files that it creates, and
    /// brings nothing to disk. Only for one rank without a journal.
    const std::vector<Fd>* memory_files = nullptr;

    /// Where execute() records what it has written, and finds what earlier runs have.
    std::optional<JournalPlace> journal;
};

/// How many bytes of buffers keep every rank within `memory` bytes, with what the fullest one has taken by now; at
/// least 16 MiB, or `memory` where that is less. Collective; the same on all ranks.
std::uint64_t buffers_within(const mpi::Comm& comm, std::uint64_t memory);

}  // namespace tpx
