// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/check/tables.hpp"

namespace tpx {

/// Throws Error "TABLE: cause" unless the columns of each table are equally long, every index refers to something,
/// lists are in order, sums of bytes stay below 2^63, and all values are possible. All other checks of tables rely on
/// this.
void check_shape(const PlanTables& tables);
void check_shape(const HostTables& tables);
void check_shape(const ModelTables& tables);

}  // namespace tpx
