// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/output/output.hpp"
#include "cmd/plan/plan.hpp"

namespace tpx::cli {

/// Compares the layouts that could be reached: what --to auto prints, best first. Files that `options` ask for are of
/// the best one.
void plan_auto(const PlanOptions& options, Output& out);

}  // namespace tpx::cli
