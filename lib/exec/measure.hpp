// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/measured.hpp"
#include "lib/exec/mpi.hpp"

#include <filesystem>
#include <utility>
#include <vector>

namespace tpx {

/// Bytes per second that one core copies from memory to memory, in buffers larger than caches, for about `seconds`.
Measured measure_memory_copy(double seconds);

/// Bytes per second of the storage that a folder is on; what the file system refuses is not measured.
struct DiskRates {
    Measured direct_write, direct_read;      ///< past the page cache
    Measured buffered_write, buffered_read;  ///< through it: written and synced, read when no longer cached
    Measured both;                           ///< read and written together, while it does both at once
};

/// Writes and reads files in `folder`, of at most `most` bytes together, and removes them. It takes about `seconds`,
/// longer only where 8 MiB do. Throws Error "PATH: ..." when they cannot be written.
DiskRates measure_disk(const std::filesystem::path& folder, double seconds, std::uint64_t most);

/// One direction between two ranks.
struct LinkRates {
    int from = 0;
    int to = 0;
    Measured latency;  ///< seconds one way, of 8 bytes
    Measured rate;     ///< bytes per second
};

/// Waits until all ranks are here, asleep: a rank that waits as MPI does would take the core that another one measures
/// on.
void wait_quietly(const mpi::Comm& comm);

/// Pairs of ranks that are measured at the same time; no rank is in two of them.
using PairRound = std::vector<std::pair<int, int>>;

/// Every direction between the pairs of `rounds`, one round after another, about `seconds` in all. Collective over
/// `comm`; rank 0 gets the result, ordered by from and to.
std::vector<LinkRates> measure_links(const mpi::Comm& comm, const std::vector<PairRound>& rounds, double seconds);

/// Rounds in which any two of `ranks` meet: of up to 8 ranks one pair at a time, of more, as many pairs at once as
/// there can be; if these are more than `most` rounds, that many of them, in which every rank meets equally many
/// others.
std::vector<PairRound> rounds_of_all(const std::vector<int>& ranks, int most);

}  // namespace tpx
