// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/cluster.hpp"
#include "lib/cluster/simulation_rules.hpp"

#include <cstdint>

namespace tpx {

/// Outages of every host from time 0 to `end`: each is up for a time that is exponential with mean `between`, then down
/// for `repair`. The same seed gives the same ones.
std::vector<Outage> random_outages(const Cluster& cluster, Time between, Time repair, Time end, std::uint64_t seed);

}  // namespace tpx
