// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/commands.hpp"
#include "cmd/output.hpp"

namespace tpx::cli {

/// Compares the layouts that could be reached: what --to auto prints, best first. Files that `options` ask for are of
/// the best one.
void plan_auto(const PlanOptions& options, Output& out);

}  // namespace tpx::cli
