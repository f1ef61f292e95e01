// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/check/facts.hpp"

#include <cstdint>

namespace tpx {

/// Checks a placement of whole TP groups: each is on one host that has room for it, and the prices prove that no such
/// placement has fewer crossing bytes than `group_bound`. Returns the number of pairs of group and host that were
/// compared. Throws Error if anything is wrong.
std::uint64_t check_group_placement(const Facts& facts);

}  // namespace tpx
