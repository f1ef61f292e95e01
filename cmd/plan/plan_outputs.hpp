// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/plan/planning.hpp"

namespace tpx::cli {

/// Throws Error (usage) for a file that `options` ask to write over something that is read: a file of the checkpoint's
/// folder, or one that an option names; and for a plan in the place of a file that is no plan. Pipes and devices are
/// no files. Nothing is changed.
void check_output_files(const PlanOptions& options, const PlanReport& report);

}  // namespace tpx::cli
