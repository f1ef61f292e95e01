// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/plan/planning.hpp"

namespace tpx::cli {

/// Adds a note to `report` about TP groups that its placement splits over hosts. Sets `crossing_if_split` if hosts
/// leave devices idle to keep groups whole, and `free_groups` if a placement of TP groups on any hosts was found in
/// little time.
void add_group_notes(PlanReport& report);

}  // namespace tpx::cli
