// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/measured_value.hpp"
#include "lib/exec/mpi.hpp"

#include <filesystem>
#include <utility>
#include <vector>

namespace tpx {

/// Bytes per second that one core copies between buffers larger than its caches; measures for about `seconds`.
MeasuredValue measure_memory_copy(double seconds);

/// Bytes per second of the storage that a folder is on; operations that the file system refuses are not measured.
struct DiskRates {
    MeasuredValue direct_write, direct_read;      ///< with direct I/O, bypassing the page cache
    MeasuredValue buffered_write, buffered_read;  ///< written and synced, read after dropping the cache
    MeasuredValue both;                           ///< bytes read and written per second while doing both at once
};

/// Writes and reads files in `folder`, of at most `most` bytes together, and removes them. Takes about `seconds`, or
/// longer if 8 MiB take longer. Throws Error "PATH: ..." if the files cannot be written.
DiskRates measure_disk(const std::filesystem::path& folder, double seconds, std::uint64_t most);

/// One direction between two ranks.
struct LinkRates {
    int from = 0;
    int to = 0;
    MeasuredValue latency;  ///< seconds one way, of 8 bytes
    MeasuredValue rate;     ///< bytes per second
};

/// Sleeps until all ranks have called it: a rank that waits in MPI would keep busy a core on which another rank
/// measures.
void wait_quietly(const mpi::Comm& comm);

/// Pairs of ranks that are measured at the same time; no rank is in two of them.
using PairRound = std::vector<std::pair<int, int>>;

/// Measures both directions between the pairs of `rounds`, one round after another, for about `seconds` in all.
/// Collective over `comm`; rank 0 gets the result, ordered by from and to.
std::vector<LinkRates> measure_links(const mpi::Comm& comm, const std::vector<PairRound>& rounds, double seconds);

/// Rounds in which any two of `ranks` meet: for up to 8 ranks, one pair at a time; for more, as many pairs at once as
/// possible. If that needs more than `most` rounds, returns `most` of them, in which every rank meets equally many
/// others.
std::vector<PairRound> rounds_of_all(const std::vector<int>& ranks, int most);

}  // namespace tpx
