// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/placement.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// Where each of `ranks` old ranks is according to `text`, in one of three forms: lines "RANKS HOST [DEVICE]" such as
/// "0-7 n0" (blank lines and # comments allowed), an Open MPI rankfile ("rank 3=n0 slot=2"; slots are cores and are
/// ignored), or one host per line in the order of the ranks, as in a SLURM_HOSTFILE. Without a device, ranks take the
/// devices of their host in order. Ranks of lost hosts have no location. Throws Error (usage) "FILE:LINE: ..." for a
/// host that is not among `hosts`, a rank that is missing, beyond `ranks` or named twice, and a device that is taken or
/// that the host lacks.
std::vector<RankLocation> parse_rank_map(std::string_view text, std::string_view file, std::span<const Host> hosts,
                                         int ranks);

/// The locations of `ranks` old ranks that filled the hosts in order. Spare hosts had no ranks, and ranks of lost hosts
/// have no location. Throws Error (usage) if the ranks do not fit.
std::vector<RankLocation> rank_locations_in_order(std::span<const Host> hosts, int ranks);

/// The host and device of each new rank, as lines "RANK HOST DEVICE" that parse_rank_map reads.
std::string rank_map(std::span<const Host> hosts, const Placement& placement);

}  // namespace tpx::formats
