// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/plan/relocation.hpp"
#include "lib/plan/senders.hpp"
#include "lib/plan/whereabouts.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// What must be sent, without rounds.
struct Transfers {
    std::vector<Transfer> list;
    SendingBound sending;
};

/// What hosts need and do not hold, from the senders that Relocation speaks of. What no host holds is read from storage
/// by each host.
Transfers choose_transfers(const Parcels& parcels, std::span<const Host> hosts, const Whereabouts& whereabouts,
                           std::span<const SendRate> rates);

}  // namespace tpx
