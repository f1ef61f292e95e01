// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hold/hosts_plan.hpp"

#include <span>

namespace tpx::cli {

/// Chooses which host sends each carried move: the nearest of those that have its elements. If several hosts are
/// equally near, the bytes are divided so that the slowest sender finishes as early as possible; moves are then split
/// along their longest axis. `nics` are the rates at which hosts send, in bytes per second; empty: all are equal. Equal
/// arguments have equal results. Sets the moves, the carried moves and their senders.
void spread_senders(HostsPlan& plan, const EndpointDistance& distance, std::span<const double> nics);

}  // namespace tpx::cli
