// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hold/hosts_plan.hpp"

#include <span>

namespace tpx::cli {

/// Chooses which host sends each carried move: among the nearest of those that have its elements, so that the host that
/// is busy longest with sending finishes first. Moves are cut, along their longest axis, where several hosts share
/// them. `nics` are the rates at which hosts send, in bytes per second; empty: all are equal. Equal arguments have
/// equal results. Sets the moves, the carried moves and their senders.
void spread_senders(HostsPlan& plan, const EndpointDistance& distance, std::span<const double> nics);

}  // namespace tpx::cli
