// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/plan/planning.hpp"

namespace tpx::cli {

/// Notes in `report` which TP groups its placement splits over hosts, and, where hosts leave devices idle to keep
/// groups whole, sets what blocks that fill hosts would send.
void note_groups(PlanReport& report);

}  // namespace tpx::cli
