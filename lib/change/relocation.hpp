// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/load.hpp"
#include "lib/change/placement.hpp"

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace tpx {

/// Where state lies while a job changes its layout.
enum class StateIn : std::uint8_t {
    memory,  ///< of the old ranks; disks are not used
    stores,  ///< of each host: what is sent or needed is read from its disk, once; what is needed is written to it
    shared   ///< storage that all hosts read: used for what no host holds
};

inline constexpr std::uint32_t from_storage = std::numeric_limits<std::uint32_t>::max();

/// Bytes of a parcel, whole elements, that go from one host to another. The transfers of a parcel into a host cover the
/// bytes that the host needs and does not hold, once. A host may forward what it received in earlier rounds: for each
/// byte, following `from` back leads to a host that holds it.
struct Transfer {
    std::uint32_t parcel = 0;
    std::uint32_t from = 0;  ///< a host, or from_storage
    std::uint32_t to = 0;    ///< a host
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint32_t round = 0;
    bool forwards = false;  ///< `from` does not hold the bytes: all of them come to it in earlier rounds
    /// An old rank on `from` that holds the bytes (with StateIn::stores: the host's store) or, if the host forwards
    /// them, the new rank that received them; -1: storage. Its device is the one that sends.
    std::int32_t from_rank = -1;
    /// A new rank on `to` that needs the bytes, on each host the same for all bytes of a parcel. Others of the host
    /// copy from it.
    std::int32_t to_rank = -1;
};

/// Why no choice of senders is done sooner: `bytes` can leave only through the NICs of `hosts`, or must be read from
/// the disks of `disks` (with StateIn::stores: to be sent, or for the host itself), which takes all of those together
/// `seconds`. Without any nothing is sent.
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
    std::vector<Load> unavoidable;    ///< by host: what it reads, writes, receives and copies, whichever hosts send
    std::vector<Transfer> transfers;  ///< sorted by round
    std::uint32_t rounds = 0;         ///< in each round a host sends to at most one host and receives from at most one
    /// Of each host, the most bytes that it keeps during a round on behalf of transfers, at most `window`: those that
    /// it receives in the round, those that it holds and sends, and those received before that it forwards in this
    /// round or later.
    std::vector<std::uint64_t> staging;
    std::uint64_t window = 0;
    /// What the rounds take if each begins when the one before has ended: an estimate, above what hosts take that start
    /// each transfer as soon as they can.
    double seconds_in_step = 0;
    /// What must come into hosts at least: sum over hosts of the bytes that they need and do not hold.
    std::uint64_t bound = 0;
    SendingBound sending;
    SendingBound sending_by_known_rates;  ///< the same if hosts with unknown rates are infinitely fast; empty: there
                                          ///< is no bound

    bool meets_bound() const { return total.other_host + total.storage == bound; }
};

/// What a host may keep in memory on behalf of transfers unless something else is asked for.
inline constexpr std::uint64_t default_window = std::uint64_t{1} << 30;

/// Chooses who sends what to whom. Every byte comes into a host once; a host of the receiver's switch group that holds
/// it is preferred, into a switch group a byte comes once, and what is read from a disk only to be sent is read once
/// in a group and sent once from there (see Fan); under these rules the busiest NIC (with StateIn::stores: or disk) is
/// as little busy as can be, and a host that received bytes may send them on. `storage` allows to read what no host
/// holds from shared storage; else throws Error (no) that names the tensor, the role and the bytes. Throws Error
/// (usage) when `window` has no room for a few elements.
Relocation relocate(const Parcels& parcels, std::span<const Host> hosts, std::span<const Seat> old_ranks,
                    const Placement& placement, StateIn state, bool storage, std::uint64_t window = default_window);

/// The same without a schedule, which takes most of the time: `transfers` and `staging` are empty, no rounds are made;
/// `sending_by_known_rates` is empty unless all rates are known.
Relocation relocate_without_rounds(const Parcels& parcels, std::span<const Host> hosts, std::span<const Seat> old_ranks,
                                   const Placement& placement, StateIn state, bool storage);

}  // namespace tpx
