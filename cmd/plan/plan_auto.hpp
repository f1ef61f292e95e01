// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/output/output.hpp"
#include "cmd/plan/plan.hpp"

namespace tpx::cli {

/// tpx plan --to auto: compares the layouts that can be reached and prints them, best first. Writes the files that
/// `options` ask for, for the best layout.
void plan_auto(const PlanOptions& options, Output& out);

}  // namespace tpx::cli
