// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/plan/load.hpp"
#include "lib/plan/placement.hpp"

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace tpx {

/// Where state lies while a job changes its layout.
enum class StateIn : std::uint8_t {
    memory,  ///< of the old ranks; disks are not used
    stores,  ///< of each host: what is sent is read from its disk, what is needed is written to it
    shared   ///< storage that all hosts read: used for what no host holds
};

inline constexpr std::uint32_t from_storage = std::numeric_limits<std::uint32_t>::max();

/// Bytes of a parcel that go from one host to another. The transfers of a parcel into a host cover the bytes that the
/// host needs and does not hold, once. A host may send on what it receives: for each byte, following `from` back leads
/// to a host that holds it.
struct Transfer {
    std::uint32_t parcel = 0;
    std::uint32_t from = 0;  ///< a host, or from_storage
    std::uint32_t to = 0;    ///< a host
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint32_t round = 0;  ///< priority: what has a lower round goes first
};

/// Why no choice of senders is done sooner: `bytes` can leave only through the NICs of `hosts`, or must be read from
/// the disks of `disks` (with StateIn::stores: before they are sent, or for the host itself), which takes all of those
/// together `seconds`. Without any nothing is sent.
struct SendingBound {
    std::vector<std::uint32_t> hosts;  ///< ascending
    std::vector<std::uint32_t> disks;  ///< ascending, none of `hosts`
    std::uint64_t bytes = 0;
    double seconds = 0;
};

/// All that moves.
struct Relocation {
    Bytes total;
    std::vector<Bytes> roles;         ///< by role
    std::vector<Load> hosts;          ///< by host
    std::vector<Transfer> transfers;  ///< sorted by round
    std::uint32_t rounds = 0;         ///< in each round a host sends to at most one host and receives from at most one
    /// What must come into hosts at least: sum over hosts of the bytes that they need and do not hold.
    std::uint64_t bound = 0;
    SendingBound sending;

    bool meets_bound() const { return total.other_host + total.storage == bound; }
};

/// Chooses who sends what to whom. Every byte comes into a host once; a host of the receiver's switch group that holds
/// it is preferred, into a switch group a byte comes once; then the busiest NIC (with StateIn::stores: or disk) is as
/// little busy as can be, and a host that received bytes may send them on. `storage` allows to read what no host holds
/// from shared storage; else throws Error (no) that names the tensor, the role and the bytes.
Relocation relocate(const Parcels& parcels, std::span<const Host> hosts, std::span<const Seat> old_ranks,
                    const Placement& placement, StateIn state, bool storage);

}  // namespace tpx
