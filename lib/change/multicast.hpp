// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/senders.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace tpx {

/// Bytes that some hosts hold and others need, and how much of them each host sends. They enter a switch group without
/// holders once; all other copies stay inside a group. A byte is read from disk just for sending at most once in each
/// group with holders and needers, or once in all if no such group has needers, and the reader sends it once.
struct Multicast {
    struct HostGroup {
        std::uint32_t number = 0;
        std::vector<std::int32_t> holders;  ///< hosts that have the bytes in memory, or also read them for themselves
        std::vector<std::int32_t> readers;  ///< hosts that hold the bytes and read them only to send them
        std::vector<std::int32_t> needers;  ///< none of them a holder
        std::vector<SenderShare> first;     ///< one copy, sent by holders or readers, if there are any
        std::vector<SenderShare> rest;      ///< all other copies for needers, except the one that enters the group
    };
    std::uint64_t bytes = 0;
    std::vector<HostGroup> groups;
    std::vector<SenderShare> entry;    ///< the first copy that enters a group without holders
    std::vector<SenderShare> entries;  ///< all other copies that enter such groups
};

/// The multicast of `bytes` bytes, without shares. `group_of` contains the switch group of each host.
Multicast make_multicast(std::uint64_t bytes, std::span<const std::int32_t> holders,
                         std::span<const std::int32_t> readers, std::span<const std::int32_t> needers,
                         std::span<const std::uint32_t> group_of);

/// The hosts that can send some copies of the bytes, each list ascending.
struct Senders {
    std::vector<std::int32_t> readers;
    std::vector<std::int32_t> holders;
    std::vector<std::int32_t> relays;  ///< needers, which forward what they received
};

/// Called for a demand with the possible senders, the number of copies, and the shares to fill in.
using DemandVisitor = std::function<void(Senders senders, std::uint64_t copies, std::vector<SenderShare>& shares)>;

/// Calls `visit` for all demands of `multicast`. Whatever shares are chosen, the bytes can be sent that way.
void for_each_demand(Multicast& multicast, const DemandVisitor& visit);

}  // namespace tpx
