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

/// Where the state is while a job changes its layout.
enum class StateMedium : std::uint8_t {
    memory,  ///< memory of the old ranks; disks are not used
    stores,  ///< store of each host: bytes to send or keep are read from its disk once, bytes that it needs are written
             ///< to it
    shared   ///< storage that all hosts can read, for state that no host holds
};

inline constexpr std::uint32_t from_storage = std::numeric_limits<std::uint32_t>::max();

/// Bytes of a parcel, in whole elements, that go from one host to another. The transfers of a parcel into a host cover
/// the bytes that the host needs and does not hold exactly once. A host may forward what it received in earlier rounds:
/// for each byte, following `from` back leads to a host that holds it.
struct Transfer {
    std::uint32_t parcel = 0;
    std::uint32_t from = 0;  ///< a host, or from_storage
    std::uint32_t to = 0;    ///< a host
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint32_t round = 0;
    bool forwards = false;  ///< `from` does not hold the bytes; it receives all of them in earlier rounds
    /// An old rank on `from` that holds the bytes (with StateMedium::stores: the host's store) or, if the host forwards
    /// them, the new rank that received them; -1: storage. The device of this rank sends.
    std::int32_t from_rank = -1;
    /// A new rank on `to` that needs the bytes; for each host, the same for all bytes of a parcel. Other ranks of the
    /// host copy from it.
    std::int32_t to_rank = -1;
};

/// Why no choice of senders finishes sooner: `bytes` can be sent only through the NICs of `hosts`, or must be read from
/// the disks of `disks` (with StateMedium::stores: for sending or for the host itself), and all of these together need
/// `seconds` for it. If there are none, nothing is sent.
struct SendingBound {
    std::vector<std::uint32_t> hosts;  ///< ascending
    std::vector<std::uint32_t> disks;  ///< ascending, none of `hosts`
    std::uint64_t bytes = 0;
    double seconds = 0;
};

/// Everything that moves, and the load on each host.
struct Relocation {
    BytesBySource total;
    std::vector<BytesBySource> roles;  ///< by role
    std::vector<Load> hosts;           ///< by host
    std::vector<Load> unavoidable;     ///< by host: the load that does not depend on which hosts send
    std::vector<Transfer> transfers;   ///< sorted by round
    std::uint32_t rounds = 0;          ///< in each round a host sends to at most one host and receives from at most one
    /// For each host, the most bytes that it buffers for transfers during a round, at most `window`: those that it
    /// receives in the round, those that it holds and sends, and those received earlier that it forwards in this round
    /// or later.
    std::vector<std::uint64_t> staging;
    std::uint64_t window = 0;
    /// The time of the rounds if each begins only when the one before has ended: an estimate, longer than if hosts
    /// start each transfer as soon as they can.
    double seconds_with_barriers = 0;
    /// The least bytes that must come into hosts: the sum over hosts of the bytes that they need and do not hold.
    std::uint64_t bound = 0;
    SendingBound sending;
    SendingBound sending_by_known_rates;  ///< the same if unknown rates are infinite; empty: no bound is known

    bool meets_bound() const { return total.other_host + total.storage == bound; }
};

/// The default limit on the bytes that a host buffers for transfers.
inline constexpr std::uint64_t default_window = std::uint64_t{1} << 30;

/// Chooses who sends what to whom. Every byte comes into a host once, preferably from a host of the same switch group.
/// It comes into a switch group without holders once, and if it is read from a disk only for sending, it is read and
/// sent once in a group (see Multicast). Hosts may forward bytes that they received. Under these rules, the busiest NIC
/// (with StateMedium::stores: or disk) is busy for the shortest possible time. If `storage` is true, bytes that no host
/// holds are read from shared storage; else they are an Error (no) that names the tensor, the role and the bytes.
/// Throws Error (usage) if `window` is smaller than 8 of the largest elements.
Relocation relocate(const Parcels& parcels, std::span<const Host> hosts, std::span<const RankLocation> old_ranks,
                    const Placement& placement, StateMedium state, bool storage, std::uint64_t window = default_window);

/// The same without a schedule, which takes most of the time: `transfers` and `staging` are empty and there are no
/// rounds. `sending_by_known_rates` is empty unless all rates are known.
Relocation relocate_without_rounds(const Parcels& parcels, std::span<const Host> hosts,
                                   std::span<const RankLocation> old_ranks, const Placement& placement,
                                   StateMedium state, bool storage);

}  // namespace tpx
