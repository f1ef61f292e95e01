// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/exec/mpi.hpp"

#include <cstdint>
#include <vector>

namespace tpx {

/// The linear CRC-64 of each file of a draft, computed from fragments that ranks and threads write in any order.
class FileCrcs {
public:
    explicit FileCrcs(const Draft& draft);

    /// Adds `size` bytes at `offset` of a file, whose linear CRC-64 is `crc`. Several threads may call it.
    void add(std::uint32_t file, std::uint64_t offset, std::uint64_t size, std::uint64_t crc);

    /// Combines what all ranks have added. Collective; then value() may be called.
    void combine(const mpi::Comm& comm);

    /// The CRC of a file whose other bytes are zero.
    std::uint64_t value(std::uint32_t file) const { return crcs_[file]; }

private:
    std::vector<std::uint64_t> sizes_;  // by file, like crcs_
    std::vector<std::uint64_t> crcs_;
};

}  // namespace tpx
