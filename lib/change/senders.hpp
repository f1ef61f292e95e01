// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/parcel.hpp"
#include "lib/change/relocation.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// Bytes that several hosts can send, in any shares. The sets contain hosts; no host is in two sets of a demand.
struct Demand {
    std::uint32_t readers = 0;  ///< hosts that read the bytes from their disk only to send them
    std::uint32_t holders = 0;  ///< hosts that have the bytes in memory, or read them anyway
    std::uint32_t relays = 0;   ///< hosts that receive the bytes first
    std::uint64_t bytes = 0;
};

/// What one host sends of a demand.
struct SenderShare {
    std::uint32_t host = 0;
    std::uint64_t bytes = 0;
};

/// How fast a host sends, in bytes per second.
struct SendRate {
    double nic = 0;
    double disk = 0;              ///< rate of reads for sending; 0: infinite
    std::uint64_t disk_load = 0;  ///< bytes that it reads for other purposes
};

struct ChosenSenders {
    std::vector<std::vector<SenderShare>> shares;  ///< of each demand, without empty ones
    SendingBound bound;
};

/// The shares for which the NIC or disk that is busy longest finishes first, to within a byte of each host's load, and
/// the cut that proves it; among these, the shares of which relays send the least. The sets of demands are numbers in
/// `sets`; each demand must have at least one host.
ChosenSenders choose_senders(const RankSets& sets, std::span<const Demand> demands, std::span<const SendRate> rates);

}  // namespace tpx
