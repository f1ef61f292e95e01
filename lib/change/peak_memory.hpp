// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/relocation.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// The memory of a device while state in device memory changes its layout.
struct PeakMemory {
    std::uint32_t host = 0;
    std::int32_t device = 0;    ///< of the host
    std::uint64_t before = 0;   ///< state of the old rank on the device
    std::uint64_t after = 0;    ///< state of the new rank
    std::uint64_t kept = 0;     ///< part of both: it stays where it is
    std::uint64_t staging = 0;  ///< the device's share of the host's buffers for transfers

    /// The peak in bytes if the old state is freed only after the new state is complete.
    std::uint64_t peak() const { return before + after - kept + staging; }
};

/// The peak of every device that holds or will hold a rank, by device. `before` and `after`: bytes of each old and each
/// new rank.
std::vector<PeakMemory> peak_memory(const Parcels& parcels, std::span<const Host> hosts,
                                    std::span<const RankLocation> old_ranks, const Placement& placement,
                                    const Relocation& relocation, std::span<const std::uint64_t> before,
                                    std::span<const std::uint64_t> after);

}  // namespace tpx
