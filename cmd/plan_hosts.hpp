// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/commands.hpp"
#include "lib/change/placement.hpp"

#include <vector>

namespace tpx::cli {

/// The hosts of --hosts, with the rates of --hardware, and with --lost and --spare applied; without --hosts those of
/// --hardware, without both one host with `ranks` devices. Throws Error (usage) for names that are not among them.
std::vector<Host> given_hosts(const PlanOptions& options, int ranks);

/// Where the old ranks are: as --ranks-on says, or in the order of the hosts.
std::vector<Seat> given_seats(const PlanOptions& options, const std::vector<Host>& hosts, int ranks);

/// Throws Error (no) when a device cannot hold what its new rank needs.
void check_device_memory(const std::vector<Host>& hosts, const Placement& placement,
                         const std::vector<std::uint64_t>& needed);

}  // namespace tpx::cli
