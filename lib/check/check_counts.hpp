// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/check/facts.hpp"

namespace tpx {

/// Throws Error unless the bytes of each role and of all roles, the bytes that must cross, and the loads of each host
/// match the parcels and transfers.
void check_counts(const Facts& facts);

}  // namespace tpx
