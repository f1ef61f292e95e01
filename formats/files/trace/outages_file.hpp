// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/cluster.hpp"
#include "lib/cluster/simulation_rules.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// The outages of rows, CSV or JSON, with `host`, `begin` and `end` (left out: for good), in seconds. Throws Error
/// "FILE:LINE: cause" for hosts that `cluster` does not have and times that cannot be.
std::vector<Outage> parse_outages(std::string_view text, std::string_view file, const Cluster& cluster);

/// The outages in the file at `path`.
std::vector<Outage> read_outages(const std::string& path, const Cluster& cluster);

}  // namespace tpx::formats
