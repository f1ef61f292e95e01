// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/check/facts.hpp"

namespace tpx {

/// Throws Error unless the transfers bring every host each byte that it needs and does not hold, once, and nothing
/// else. A byte must come from a host that holds it or received it in an earlier round, or from storage if no host
/// holds it; it must enter a switch group once, or never if a host of the group holds it. Ranges must end at element
/// boundaries. The memory that each host needs for transfers must be what the file says and must not exceed the window.
void check_transfers(const Facts& facts);

/// Throws Error unless transfers are sorted by rounds that follow each other, and in a round each host sends to at most
/// one host and receives from at most one.
void check_rounds(const Facts& facts);

}  // namespace tpx
