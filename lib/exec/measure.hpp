// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/mpi.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace tpx {

/// What repeated measurements come to.
struct Measured {
    double median = 0;  ///< 0: not measured
    double spread = 0;  ///< between the quartiles, as a share of the median
};

/// The median of `values` and the distance of their quartiles; zeros for none.
Measured summarise(std::vector<double> values);

/// Bytes per second that one core copies from memory to memory, in buffers larger than caches, for about `seconds`.
Measured measure_memory_copy(double seconds);

/// Bytes per second of the storage that a folder is on; what the file system refuses is not measured.
struct DiskRates {
    Measured direct_write, direct_read;      ///< past the page cache
    Measured buffered_write, buffered_read;  ///< through it: written and synced, read when no longer cached
};

/// Writes and reads a file of at least 64 MiB and at most `most` bytes in `folder`, for about `seconds`, and removes
/// it. Throws Error "PATH: ..." when it cannot be written.
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

/// Every direction between any two of `ranks`, about `seconds` in all. Of up to 8 ranks one pair is measured at a time;
/// of more, pairs that share no rank at the same time. Collective over `comm`; rank 0 gets the result, ordered by from
/// and to.
std::vector<LinkRates> measure_links(const mpi::Comm& comm, const std::vector<int>& ranks, double seconds);

/// Rounds in which each of `count` players meets every other once; -1: nobody. round[k] is whom k meets.
std::vector<std::vector<int>> tournament(int count);

}  // namespace tpx
