// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/file_crcs.hpp"

#include "lib/core/crc.hpp"

#include <atomic>

namespace tpx {

FileCrcs::FileCrcs(const Draft& draft) : crcs_(draft.files.size()) {
    for (const FileEntry& file : draft.files) sizes_.push_back(file.size);
}

void FileCrcs::add(std::uint32_t file, std::uint64_t offset, std::uint64_t size, std::uint64_t crc) {
    const std::uint64_t at_its_place = multiply(crc, Crc64::power(8 * (sizes_[file] - offset - size)));
    std::atomic_ref{crcs_[file]}.fetch_xor(at_its_place, std::memory_order_relaxed);
}

void FileCrcs::combine(const mpi::Comm& comm) { mpi::all_xor(comm, crcs_); }

}  // namespace tpx
