// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/check/facts.hpp"

namespace tpx {

/// Throws Error unless the transfers bring to every host what it needs and does not hold, each byte once and nothing
/// else, from hosts that hold it or were sent it in earlier rounds, or from storage what no host holds; into a switch
/// group a byte comes once, if none of its hosts holds it; ranges end at elements; and what each host keeps in memory
/// for that is what is stored, and no more than the window.
void check_transfers(const Facts& facts);

/// Throws Error unless transfers are sorted by rounds that follow each other, and in a round each host sends to at most
/// one host and receives from at most one.
void check_rounds(const Facts& facts);

}  // namespace tpx
