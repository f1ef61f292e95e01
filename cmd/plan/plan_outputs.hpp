// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/plan/planning.hpp"

namespace tpx::cli {

/// Throws Error (usage) if an output file of `options` would overwrite an input: a file in the checkpoint's folder, or
/// one that another option names; also if --output would overwrite a file that is not a plan. Ignores pipes and
/// devices. Changes nothing.
void check_output_files(const PlanOptions& options, const PlanReport& report);

}  // namespace tpx::cli
