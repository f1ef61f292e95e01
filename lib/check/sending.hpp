// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/check/facts.hpp"

namespace tpx {

/// Throws Error unless the bytes of the sending bound can leave only through the NICs and disks that it names, take
/// them as long as it says, and no NIC and no disk of a sender is busy for longer, but for rounding.
void check_sending(const Facts& facts);

}  // namespace tpx
