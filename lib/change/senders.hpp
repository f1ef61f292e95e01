// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/parcel.hpp"
#include "lib/change/relocation.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// Bytes that any of some hosts send, in any shares. Sets are of hosts; no host is in two of one demand.
struct Demand {
    std::uint32_t readers = 0;  ///< hosts that read them from their disk to send them
    std::uint32_t holders = 0;  ///< hosts that have them in memory, or read them anyway
    std::uint32_t relays = 0;   ///< hosts that receive them before
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
    double disk = 0;              ///< of what it reads to send it; 0: at any rate
    std::uint64_t disk_load = 0;  ///< what it reads besides
};

struct Sending {
    std::vector<std::vector<SenderShare>> shares;  ///< of each demand, without empty ones
    SendingBound bound;
};

/// The shares with which the NIC or disk that is busy longest is done first, to within a byte of each host's load, and
/// the cut that proves it; of such shares those of which least is sent by relays. Sets of demands are numbers in
/// `sets`; none may be without any host.
Sending choose_senders(const RankSets& sets, std::span<const Demand> demands, std::span<const SendRate> rates);

}  // namespace tpx
