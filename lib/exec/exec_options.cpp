// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/exec_options.hpp"

#include "lib/exec/mpi.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace tpx {

std::uint64_t buffers_within(const mpi::Comm& comm, std::uint64_t memory) {
    constexpr std::uint64_t mebi = std::uint64_t{1} << 20, least = 16 * mebi, for_threads = 8 * mebi;
    std::uint64_t size = 0, resident = 0;
    std::ifstream{"/proc/self/statm"} >> size >> resident;
    std::uint64_t taken = resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) + for_threads;
    mpi::all_max(comm, {&taken, 1});
    const std::uint64_t left = memory > taken ? memory - taken : 0;
    return std::max(left, std::min(memory, least));
}

}  // namespace tpx
