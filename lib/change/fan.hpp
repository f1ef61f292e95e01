// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/senders.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace tpx {

/// Bytes that some hosts hold and others need, and who sends how much of them. Into a switch group without holders they
/// come once; all other copies stay in a group. A byte is read from disk only to be sent once in a group of
/// those that hold it, or once in all where nobody in such a group needs it, and sent once from there.
struct Fan {
    struct HostGroup {
        std::uint32_t number = 0;
        std::vector<std::int32_t> holders;  ///< that have the bytes in memory, or read them for themselves too
        std::vector<std::int32_t> readers;  ///< holders that read them only to send them
        std::vector<std::int32_t> needers;  ///< none of them a holder
        std::vector<SenderShare> first;     ///< one copy, by holders; only where there are any
        std::vector<SenderShare> rest;      ///< all other copies for needers but the one that enters the group
    };
    std::uint64_t bytes = 0;
    std::vector<HostGroup> groups;
    std::vector<SenderShare> entry;    ///< one copy that enters a group without holders
    std::vector<SenderShare> entries;  ///< all others that do
};

/// The fan of `bytes`, with nothing shared out yet. `group_of` gives the switch group of each host.
Fan make_fan(std::uint64_t bytes, std::span<const std::int32_t> holders, std::span<const std::int32_t> readers,
             std::span<const std::int32_t> needers, std::span<const std::uint32_t> group_of);

/// The hosts that may send some copies of the bytes, each kind ascending.
struct Senders {
    std::vector<std::int32_t> readers;
    std::vector<std::int32_t> holders;
    std::vector<std::int32_t> relays;  ///< needers, which send what they received
};

/// Gets a demand: who may send, how many copies, and where the shares belong.
using DemandVisitor = std::function<void(Senders senders, std::uint64_t copies, std::vector<SenderShare>& shares)>;

/// Tells `visit` of all demands of `fan`. There is a way to fan out whatever shares are chosen.
void for_each_demand(Fan& fan, const DemandVisitor& visit);

}  // namespace tpx
