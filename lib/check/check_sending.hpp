// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/check/facts.hpp"

namespace tpx {

/// Throws Error unless the bytes of the sending bound can leave only through the NICs and disks that the bound names,
/// sending them takes as long as the bound says, and, except for rounding, no NIC or disk of a sender is busy for
/// longer.
void check_sending(const Facts& facts);

}  // namespace tpx
