// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace tpx::cli {

/// The ranks that each host will hold, ascending, of a job of `ranks` ranks. `given` contains what --ranks names on
/// each host, sorted. If no host names any, the hosts get consecutive blocks whose sizes differ by at most 1, the
/// larger ones first; hosts beyond the number of ranks get none. Throws Error (usage) if only some hosts name ranks, or
/// if two name the same rank. As on one host, ranks that no host names are not held.
std::vector<std::vector<int>> ranks_of_hosts(std::span<const std::optional<std::vector<int>>> given, int ranks);

}  // namespace tpx::cli
