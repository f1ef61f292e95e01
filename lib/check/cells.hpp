// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/check/tables.hpp"

namespace tpx {

/// Throws Error unless cells follow each other in the parcels, from their first byte to their last, each within its
/// tensor, of its parcel's role and size of an element. Whether their elements are those of the parcel, PieceNeeds
/// finds.
void check_cells(const HeldTables& held, const HostTables& hosts);

}  // namespace tpx
