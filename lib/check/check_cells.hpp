// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/check/tables.hpp"

namespace tpx {

/// Throws Error unless the cells of each parcel follow each other from its first byte to its last, and each cell is
/// within its tensor and has the role and the element size of its parcel. PieceNeeds checks that the elements are those
/// of the parcel.
void check_cells(const HeldTables& held, const HostTables& hosts);

}  // namespace tpx
